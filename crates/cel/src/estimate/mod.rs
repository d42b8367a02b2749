//! What an expression may cost at worst, reckoned before it runs from what the schema says of sizes. The API server refuses rules
//! whose estimate is too high, so this follows the reference to the unit, its oddities included.

mod calls;
mod range;

use crate::check::Checked;
use crate::check::types::Type;
use crate::decl::Decl;
use crate::functions::{LIST_COST, MAP_COST};
use crate::syntax::ast::{Ast, Fold, Id, Kind, Literal};

use range::Range;

pub(crate) fn estimate(ast: &Ast, root: Id, checked: &Checked, this: &Decl) -> u64 {
    let mut estimator = Estimator {
        ast,
        checked,
        this,
        locals: Vec::new(),
        paths: vec![Path::None; ast.len()],
        sizes: vec![None; ast.len()],
        entries: vec![None; ast.len()],
    };
    estimator.cost(root).max
}

/// Where in the schema a value comes from. The first step is always taken to be from the root.
#[derive(Clone, Copy)]
enum Path<'d> {
    None,
    At(&'d Decl),
    /// From where the schema says nothing.
    Lost,
}

/// Sizes of the keys and values of a container.
#[derive(Clone, Copy)]
struct Entries {
    list: bool,
    key: Range,
    value: Range,
}

struct Local<'d> {
    name: String,
    path: Path<'d>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'e> {
    ast: &'e Ast,
    checked: &'e Checked,
    this: &'e Decl,
    locals: Vec<Local<'e>>,
    paths: Vec<Path<'e>>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
}

impl<'e> Estimator<'e> {
    fn cost(&mut self, id: Id) -> Range {
        let ast = self.ast;
        match &ast[id].kind {
            Kind::Broken | Kind::Message(_) | Kind::Literal(_) => Range::NOTHING,
            Kind::Ident(name) => {
                let path = self.local(name).map(|local| local.path);
                self.paths[id as usize] = path.unwrap_or(Path::At(self.this));
                Range::ONE
            }
            Kind::Select { operand, test: true, .. } => self.cost(*operand),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(*operand);
                self.paths[id as usize] = self.step(self.path(*operand), field);
                match self.type_of(*operand) {
                    Type::Map(..) | Type::Object(_) | Type::Named(_) => cost.plus(Range::ONE),
                    _ => cost,
                }
            }
            Kind::List(elements) => {
                let mut total = Range::exactly(LIST_COST);
                let mut value = if elements.is_empty() { Range::NOTHING } else { Range::EMPTY };
                for element in elements {
                    total = total.plus(self.cost(element.value));
                    value = value.union(self.size_or_unknown(element.value));
                }
                self.entries[id as usize] = Some(Entries { list: true, key: Range::ONE, value });
                total
            }
            Kind::Map(entries) => {
                let mut total = Range::exactly(MAP_COST);
                let nothing = if entries.is_empty() { Range::NOTHING } else { Range::EMPTY };
                let (mut key, mut value) = (nothing, nothing);
                for entry in entries {
                    total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value));
                    key = key.union(self.size_or_unknown(entry.key));
                    value = value.union(self.size_or_unknown(entry.value));
                }
                self.entries[id as usize] = Some(Entries { list: false, key, value });
                total
            }
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::Fold(fold) if fold.is_binding() => self.binding(id, fold),
            Kind::Fold(fold) => self.fold(id, fold),
        }
    }

    fn type_of(&self, id: Id) -> &'e Type {
        &self.checked.types[id as usize]
    }

    fn local(&self, name: &str) -> Option<&Local<'e>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, id: Id) -> Path<'e> {
        match &self.ast[id].kind {
            Kind::Ident(name) => self.local(name).map_or(self.paths[id as usize], |local| local.path),
            _ => self.paths[id as usize],
        }
    }

    fn step(&self, from: Path<'e>, name: &str) -> Path<'e> {
        const KEY: &Decl = &Decl::Dyn;
        let decl = match from {
            Path::None => return Path::At(self.this),
            Path::Lost => return Path::Lost,
            Path::At(decl) => decl,
        };
        let next = match (decl, name) {
            (Decl::List { element, .. }, "@items" | "@values") => Some(&**element),
            (Decl::Map { value, .. }, "@items" | "@values") => Some(&**value),
            (Decl::Map { .. }, "@keys") => Some(KEY),
            (Decl::Object { fields, .. }, name) => crate::escape::unescape(name).and_then(|name| fields.get(&name)),
            _ => None,
        };
        next.map_or(Path::Lost, Path::At)
    }

    fn path_size(path: Path) -> Option<Range> {
        match path {
            Path::At(decl) => Some(Range::up_to(decl.max_elements())),
            _ => None,
        }
    }

    fn size(&mut self, id: Id) -> Option<Range> {
        if let Some(known) = self.sizes[id as usize] {
            return Some(known);
        }
        let written = match &self.ast[id].kind {
            Kind::Literal(Literal::String(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len()),
            Kind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = written {
            return Some(Range::exactly(size as u64));
        }
        if let Some(size) = Self::path_size(self.path(id)) {
            self.sizes[id as usize] = Some(size);
            return Some(size);
        }
        if is_scalar(self.type_of(id)) {
            return Some(Range::ONE);
        }
        match &self.ast[id].kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, id: Id) -> Range {
        self.size(id).unwrap_or(Range::UNKNOWN)
    }

    fn entries(&self, id: Id) -> Option<Entries> {
        self.entries[id as usize].or_else(|| match &self.ast[id].kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        })
    }

    fn binding(&mut self, id: Id, fold: &Fold) -> Range {
        let cost = self.cost(fold.range).plus(self.cost(fold.init));
        self.push_accumulator(fold);
        let cost = cost.plus(self.cost(fold.result));
        let (size, entries) = (self.size(fold.result), self.entries(fold.result));
        self.locals.pop();
        self.sizes[id as usize] = size;
        self.entries[id as usize] = entries;
        cost
    }

    fn push_accumulator(&mut self, fold: &Fold) {
        let (path, size, entries) = (self.path(fold.init), self.size(fold.init), self.entries(fold.init));
        self.locals.push(Local { name: fold.accumulator.clone(), path, size, entries });
    }

    fn fold(&mut self, id: Id, fold: &Fold) -> Range {
        let outside = self.cost(fold.range).plus(self.cost(fold.init));
        self.push_accumulator(fold);
        let entries = self.entries(fold.range);
        let list = entries.map_or(matches!(self.type_of(fold.range), Type::List(_)), |entries| entries.list);
        let of_key = ("@keys", entries.map(|entries| entries.key));
        let of_value = (if list { "@items" } else { "@values" }, entries.map(|entries| entries.value));
        let mut variables = vec![(&fold.variable, if list { of_value } else { of_key })];
        if let Some(second) = &fold.second {
            let of_index = if list { ("@indices", of_key.1) } else { of_key };
            variables = vec![(&fold.variable, of_index), (second, of_value)];
        }
        let count = variables.len();
        for (name, (step, size)) in variables {
            let path = self.step(self.path(fold.range), step);
            self.locals.push(Local { name: name.clone(), path, size, entries: None });
        }
        let round = self.cost(fold.condition).plus(self.cost(fold.step));
        self.locals.truncate(self.locals.len() - count);
        let result = self.cost(fold.result);
        self.locals.pop();

        let rounds = self.size_or_unknown(fold.range);
        match &self.ast[fold.init].kind {
            Kind::Literal(_) => self.sizes[id as usize] = self.size(fold.init),
            Kind::List(_) | Kind::Map(_) => {
                self.sizes[id as usize] = Some(rounds);
                if let Some(entries) = self.entries(fold.step) {
                    self.entries[id as usize] = Some(entries);
                }
            }
            _ => {}
        }
        outside.plus(result).plus(rounds.times(round))
    }
}

/// Whether values of the type all have one size.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}

//! From the checked tree to what is run: variables have places, functions are found, constants and patterns are ready.

use regex::Regex;

use super::Room;
use crate::check::types::Type;
use crate::check::{Checked, type_named};
use crate::error::CompileError;
use crate::escape::unescape;
use crate::functions::{self, Charge, Function};
use crate::pattern::regex;
use crate::syntax::ast::{Ast, Element, Entry, Fold as FoldNode, Id, Kind, Literal};
use crate::value::Val;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Const(Literal),
    Type(&'static str),
    This {
        cost: u64,
    },
    Old {
        cost: u64,
    },
    Local {
        slot: usize,
        cost: u64,
    },
    Select {
        operand: Box<Op>,
        field: Field,
        optional: bool,
        cost: u64,
    },
    Has {
        operand: Box<Op>,
        field: Field,
        cost: u64,
    },
    Index {
        operand: Box<Op>,
        index: Box<Op>,
        optional: bool,
        cost: u64,
    },
    And(Box<[Op; 2]>),
    Or(Box<[Op; 2]>),
    If(Box<[Op; 3]>),
    /// `left.or(right)` and `left.orValue(right)`: the right side only if needed.
    OrElse {
        sides: Box<[Op; 2]>,
        unwrap: bool,
    },
    NotStrictlyFalse(Box<Op>),
    List {
        elements: Vec<(Op, bool)>,
        cost: u64,
    },
    /// A constant list or map, set up once and kept.
    Once {
        place: usize,
        op: Box<Op>,
    },
    Map {
        entries: Vec<(Op, Op, bool)>,
        cost: u64,
    },
    /// One more element for the accumulator in a place, which nobody else sees.
    Append {
        slot: usize,
        element: Box<Op>,
        cost: u64,
    },
    /// One more entry, or all entries of a map, for the accumulator.
    Insert {
        slot: usize,
        entry: Vec<Op>,
    },
    Call(Box<Call>),
    /// A variable and where it is seen; its value is found when first asked for.
    Bind {
        slot: usize,
        parts: Box<[Op; 2]>,
    },
    Fold(Box<Fold>),
}

/// A field as the expression names it and as JSON does.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// Nothing if it is no name an object could have.
    pub raw: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub name: String,
    pub function: Function,
    pub charge: Charge,
    pub args: Vec<Op>,
    /// The compiled pattern, if it is a constant.
    pub regex: Option<Regex>,
    /// A conversion of constants.
    pub constant: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub range: Op,
    pub first: usize,
    pub second: Option<usize>,
    pub accumulator: usize,
    pub init: Op,
    pub condition: Op,
    pub step: Op,
    pub result: Op,
}

/// The plan of an expression and the room it needs.
pub(crate) fn plan(ast: &Ast, root: Id, checked: &Checked) -> Result<(Op, Room), CompileError> {
    let mut planner = Planner { ast, checked, scopes: Vec::new(), room: Room { locals: 0, constants: 0 } };
    let op = planner.op(root, false)?;
    Ok((op, planner.room))
}

struct Planner<'p> {
    ast: &'p Ast,
    checked: &'p Checked,
    /// The variables in sight; a variable's place is its index.
    scopes: Vec<String>,
    room: Room,
}

type Planned<T = Op> = Result<T, CompileError>;

impl Planner<'_> {
    /// `bare`: as a branch of a conditional or as an index, where the reference does not charge for naming a variable.
    fn op(&mut self, id: Id, bare: bool) -> Planned {
        match &self.ast[id].kind {
            Kind::Broken | Kind::Message(_) => Err(CompileError::Constant("broken expression".into())),
            Kind::Literal(literal) => Ok(Op::Const(literal.clone())),
            Kind::Ident(name) => Ok(self.variable(name, u64::from(!bare))),
            Kind::Select { operand, field, test } => self.select(*operand, field, *test, bare),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Call { function, target, args } => {
                let operands: Vec<Id> = target.iter().chain(args).copied().collect();
                self.call(id, function, &operands, bare)
            }
        }
    }

    fn select(&mut self, operand: Id, field: &str, test: bool, bare: bool) -> Planned {
        let (operand, base) = self.operand(operand, bare && !test)?;
        let field = Field::new(field);
        Ok(match test {
            true => Op::Has { operand, field, cost: base },
            false => Op::Select { operand, field, optional: false, cost: base + 1 },
        })
    }

    fn list(&mut self, elements: &[Element]) -> Planned {
        let mut planned = Vec::with_capacity(elements.len());
        for element in elements {
            planned.push((self.op(element.value, false)?, element.optional));
        }
        let constant = planned.iter().all(|(op, optional)| op.is_constant() && !optional);
        let cost = if constant { 0 } else { functions::LIST_COST };
        Ok(self.once(Op::List { elements: planned, cost }, constant))
    }

    fn map(&mut self, entries: &[Entry]) -> Planned {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.op(entry.key, false)?;
            planned.push((key, self.op(entry.value, false)?, entry.optional));
        }
        let constant =
            planned.iter().all(|(key, value, optional)| key.is_constant() && value.is_constant() && !optional);
        let cost = if constant { 0 } else { functions::MAP_COST };
        Ok(self.once(Op::Map { entries: planned, cost }, constant))
    }

    fn once(&mut self, op: Op, constant: bool) -> Op {
        if !constant {
            return op;
        }
        self.room.constants += 1;
        Op::Once { place: self.room.constants - 1, op: Box::new(op) }
    }

    /// What a field or an element is taken from. If it is no variable or field itself, the first step from it costs one more.
    fn operand(&mut self, id: Id, bare: bool) -> Planned<(Box<Op>, u64)> {
        let attribute = self.is_attribute(id);
        let operand = self.op(id, bare && attribute)?;
        Ok((Box::new(operand), u64::from(!attribute && !bare)))
    }

    /// Whether it is a variable, or something reached from one by fields and indices alone.
    fn is_attribute(&self, id: Id) -> bool {
        match &self.ast[id].kind {
            Kind::Ident(_) | Kind::Select { test: false, .. } => true,
            Kind::Call { function, .. } => matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._" | "_?_:_"),
            _ => false,
        }
    }

    fn variable(&self, name: &str, cost: u64) -> Op {
        if let Some(slot) = self.scopes.iter().rposition(|known| known == name) {
            return Op::Local { slot, cost };
        }
        match name {
            "self" => Op::This { cost },
            "oldSelf" => Op::Old { cost },
            _ => Op::Type(type_name(name)),
        }
    }

    fn call(&mut self, id: Id, function: &str, operands: &[Id], bare: bool) -> Planned {
        match (function, operands) {
            ("_?._" | "_[_]" | "_[?_]", [operand, argument]) => self.access(function, *operand, *argument, bare),
            ("_&&_" | "_||_" | "or" | "orValue", [left, right]) => self.either(function, *left, *right),
            ("_?_:_", [condition, yes, no]) => {
                let condition = self.op(*condition, false)?;
                let yes = self.op(*yes, true)?;
                Ok(Op::If(Box::new([condition, yes, self.op(*no, true)?])))
            }
            ("@not_strictly_false", [operand]) => Ok(Op::NotStrictlyFalse(Box::new(self.op(*operand, false)?))),
            ("_+_" | "cel.@mapInsert", [accumulator, ..]) if self.accumulator(*accumulator).is_some() => {
                self.gather(id, function, operands)
            }
            _ => self.function(id, function, operands),
        }
    }

    /// A field, or an element by its index.
    fn access(&mut self, function: &str, operand: Id, argument: Id, bare: bool) -> Planned {
        let (operand, base) = self.operand(operand, bare)?;
        if let ("_?._", Kind::Literal(Literal::String(name))) = (function, &self.ast[argument].kind) {
            return Ok(Op::Select { operand, field: Field::new(name), optional: true, cost: base + 1 });
        }
        let index = Box::new(self.op(argument, self.is_attribute(argument))?);
        Ok(Op::Index { operand, index, optional: function == "_[?_]", cost: base + 1 })
    }

    fn either(&mut self, function: &str, left: Id, right: Id) -> Planned {
        let left = self.op(left, false)?;
        let sides = Box::new([left, self.op(right, false)?]);
        Ok(match function {
            "_&&_" => Op::And(sides),
            "_||_" => Op::Or(sides),
            _ => Op::OrElse { sides, unwrap: function == "orValue" },
        })
    }

    /// What a loop collects.
    fn gather(&mut self, id: Id, function: &str, operands: &[Id]) -> Planned {
        let (Some(slot), entry) = (self.accumulator(operands[0]), &operands[1..]) else {
            return self.function(id, function, operands);
        };
        if function == "cel.@mapInsert" {
            let entry = entry.iter().map(|id| self.op(*id, false)).collect::<Planned<_>>()?;
            return Ok(Op::Insert { slot, entry });
        }
        match &self.ast[entry[0]].kind {
            Kind::List(elements) if elements.len() == 1 => {
                let element = Box::new(self.op(elements[0].value, false)?);
                // Naming the accumulator and adding to it; the list around the element is free if that is constant.
                let cost = 2 + if element.is_constant() { 0 } else { functions::LIST_COST };
                Ok(Op::Append { slot, element, cost })
            }
            _ => self.function(id, function, operands),
        }
    }

    fn function(&mut self, id: Id, function: &str, operands: &[Id]) -> Planned {
        let args = operands.iter().map(|id| self.op(*id, false)).collect::<Planned<Vec<_>>>()?;
        self.apply(id, function, args)
    }

    fn apply(&mut self, id: Id, function: &str, args: Vec<Op>) -> Planned {
        let Some((implementation, charge)) = functions::lookup(function) else {
            return Err(CompileError::Constant(format!("no such overload: {function}")));
        };
        let name = function.to_string();
        let mut call = Call { name, function: implementation, charge, args, regex: None, constant: false };
        if functions::is_conversion(function) && call.args.iter().all(Op::is_constant) {
            call.charge = Charge::Nothing;
            call.constant = true;
            return self.constant(call);
        }
        if let (Charge::Membership, Some(Op::Once { op, .. })) = (charge, call.args.get_mut(1))
            && let Some(set) = as_set(op)
        {
            // In an empty list there is nothing, whatever is asked for.
            if matches!(&set, Op::Map { entries, .. } if entries.is_empty()) {
                return Ok(Op::Const(Literal::Bool(false)));
            }
            **op = set;
            call.charge = Charge::Nothing;
        }
        if function == "sum" {
            call.args.push(self.zero(id));
        }
        if let (Charge::Matching, Some(Op::Const(Literal::String(pattern)))) = (charge, call.args.get(1)) {
            call.regex = Some(regex(pattern).map_err(CompileError::Constant)?);
        }
        Ok(Op::Call(Box::new(call)))
    }

    /// What the sum of nothing is.
    fn zero(&self, id: Id) -> Op {
        match self.checked.types[id as usize] {
            Type::Double => Op::Const(Literal::Double(0.0)),
            Type::Uint => Op::Const(Literal::Uint(0)),
            Type::Duration => Op::Call(Box::new(Call {
                name: "duration".into(),
                function: Function::Plain(functions::to_duration),
                charge: Charge::Nothing,
                args: vec![Op::Const(Literal::Int(0))],
                regex: None,
                constant: true,
            })),
            _ => Op::Const(Literal::Int(0)),
        }
    }

    /// A conversion of a constant, done once and for all.
    fn constant(&self, call: Call) -> Planned {
        let op = Op::Call(Box::new(call));
        let folded = match super::constant(&op, self.room) {
            Ok(value) => match value {
                Val::Null => Some(Literal::Null),
                Val::Bool(value) => Some(Literal::Bool(value)),
                Val::Int(value) => Some(Literal::Int(value)),
                Val::Uint(value) => Some(Literal::Uint(value)),
                Val::Double(value) => Some(Literal::Double(value)),
                Val::String(text) => Some(Literal::String(text.to_string())),
                Val::Bytes(bytes) => Some(Literal::Bytes(bytes.to_vec())),
                Val::Type(name) => return Ok(Op::Type(name)),
                _ => None,
            },
            Err(error) => return Err(CompileError::Constant(error.to_string())),
        };
        Ok(folded.map_or(op, Op::Const))
    }

    /// The place of the variable, if it is the one only macros can name.
    fn accumulator(&self, id: Id) -> Option<usize> {
        match &self.ast[id].kind {
            Kind::Ident(name) if name.starts_with('@') => self.scopes.iter().rposition(|known| known == name),
            _ => None,
        }
    }

    fn fold(&mut self, fold: &FoldNode) -> Planned {
        let range = self.op(fold.range, false)?;
        let init = self.op(fold.init, false)?;
        let accumulator = self.scopes.len();
        self.scopes.push(fold.accumulator.clone());
        if fold.is_binding() {
            self.room.locals = self.room.locals.max(self.scopes.len());
            let result = self.op(fold.result, false)?;
            self.scopes.truncate(accumulator);
            return Ok(Op::Bind { slot: accumulator, parts: Box::new([init, result]) });
        }
        let first = self.scopes.len();
        self.scopes.push(fold.variable.clone());
        let second = fold.second.as_ref().map(|name| {
            self.scopes.push(name.clone());
            first + 1
        });
        self.room.locals = self.room.locals.max(self.scopes.len());
        let condition = self.op(fold.condition, false)?;
        let step = self.op(fold.step, false)?;
        self.scopes.truncate(first);
        let result = self.op(fold.result, false)?;
        self.scopes.truncate(accumulator);
        Ok(Op::Fold(Box::new(Fold { range, first, second, accumulator, init, condition, step, result })))
    }
}

impl Op {
    fn is_constant(&self) -> bool {
        match self {
            Op::Const(_) | Op::Type(_) | Op::Once { .. } => true,
            Op::Call(call) => call.constant,
            _ => false,
        }
    }
}

/// A constant list as a map, if its elements are plain enough to be keys: the reference looks them up, too, at no cost.
fn as_set(list: &Op) -> Option<Op> {
    let Op::List { elements, .. } = list else { return None };
    let plain = |op: &Op| matches!(op, Op::Const(literal) if !matches!(literal, Literal::Bytes(_)));
    let entry = |(op, _): &(Op, bool)| plain(op).then(|| (op.clone(), Op::Const(Literal::Null), false));
    Some(Op::Map { entries: elements.iter().map(entry).collect::<Option<_>>()?, cost: 0 })
}

impl Field {
    fn new(name: &str) -> Field {
        Field { name: name.to_string(), raw: unescape(name) }
    }
}

/// The run-time name of a type that an expression names.
fn type_name(name: &str) -> &'static str {
    const NAMES: [&str; 13] = [
        "bool",
        "bytes",
        "double",
        "int",
        "uint",
        "string",
        "list",
        "map",
        "null_type",
        "type",
        "google.protobuf.Timestamp",
        "google.protobuf.Duration",
        "optional_type",
    ];
    match type_named(name) {
        Some(Type::Named(name)) => name,
        _ => NAMES.into_iter().find(|known| *known == name).unwrap_or("dyn"),
    }
}

//! Macros: calls that stand for loops and presence tests.

use super::ast::{Element, Fold, Id, Kind, Literal};
use super::parser::{Parser, Stop};

/// The variable a loop collects in. No source can name it.
pub(super) const ACCUMULATOR: &str = "@result";

type Parsed = Result<Id, Stop>;

pub(super) fn global_call(parser: &mut Parser, at: u32, function: String, args: Vec<Id>) -> Parsed {
    if function != "has" || args.len() != 1 {
        return parser.call(at, &function, args);
    }
    let argument = &parser.ast[args[0]];
    match argument.kind.clone() {
        Kind::Select { operand, field, test: false } => {
            Ok(parser.ast.add(at, Kind::Select { operand, field, test: true })?)
        }
        _ => {
            let at = argument.at;
            parser.broken(at, "invalid argument to has() macro".into())
        }
    }
}

pub(super) fn member_call(parser: &mut Parser, at: u32, target: Id, function: String, args: Vec<Id>) -> Parsed {
    let mut build = Builder { parser, at };
    let expansion = match (function.as_str(), args.len()) {
        ("all", 2) => build.all(target, &args, 1),
        ("exists", 2) => build.exists(target, &args, 1),
        ("exists_one" | "existsOne", 2) => build.exists_one(target, &args, 1),
        ("map", 2) => build.map(target, &args, 1, None, args[1]),
        ("map", 3) => build.map(target, &args, 1, Some(args[1]), args[2]),
        ("filter", 2) => build.filter(target, &args),
        ("all", 3) => build.all(target, &args, 2),
        ("exists", 3) => build.exists(target, &args, 2),
        ("exists_one" | "existsOne", 3) => build.exists_one(target, &args, 2),
        ("transformList", 3) => build.map(target, &args, 2, None, args[2]),
        ("transformList", 4) => build.map(target, &args, 2, Some(args[2]), args[3]),
        ("transformMap", 3) => build.transform_map(target, &args, None, args[2]),
        ("transformMap", 4) => build.transform_map(target, &args, Some(args[2]), args[3]),
        ("transformMapEntry", 3) => build.transform_entry(target, &args, None, args[2]),
        ("transformMapEntry", 4) => build.transform_entry(target, &args, Some(args[2]), args[3]),
        ("optMap" | "optFlatMap", 2) => build.optional_map(target, &args, &function),
        _ => return Ok(parser.ast.add(at, Kind::Call { function, target: Some(target), args })?),
    };
    match expansion {
        Ok(id) => Ok(id),
        Err(Refused::Argument(at, why)) => parser.broken(at, why),
        Err(Refused::Stop(stop)) => Err(stop),
    }
}

enum Refused {
    /// An argument is not what the macro needs.
    Argument(u32, String),
    Stop(Stop),
}

impl<E: Into<Stop>> From<E> for Refused {
    fn from(error: E) -> Self {
        Refused::Stop(error.into())
    }
}

type Built<T = Id> = Result<T, Refused>;

/// Makes nodes that all point to the macro's call.
struct Builder<'p, 's, 'i> {
    parser: &'p mut Parser<'s, 'i>,
    at: u32,
}

impl Builder<'_, '_, '_> {
    fn add(&mut self, kind: Kind) -> Built {
        Ok(self.parser.ast.add(self.at, kind)?)
    }

    fn literal(&mut self, value: Literal) -> Built {
        self.add(Kind::Literal(value))
    }

    fn result(&mut self) -> Built {
        self.add(Kind::Ident(ACCUMULATOR.into()))
    }

    fn call(&mut self, function: &str, args: Vec<Id>) -> Built {
        Ok(self.parser.call(self.at, function, args)?)
    }

    fn method(&mut self, function: &str, target: Id) -> Built {
        self.add(Kind::Call { function: function.into(), target: Some(target), args: Vec::new() })
    }

    /// The loop variables, which the first arguments name.
    fn variables(&self, args: &[Id], count: usize, why: &str) -> Built<(String, Option<String>)> {
        let mut names = Vec::new();
        for id in &args[..count] {
            let node = &self.parser.ast[*id];
            match &node.kind {
                Kind::Ident(name) if name == "__result__" => {
                    let why = "iteration variable overwrites accumulator variable";
                    return Err(Refused::Argument(node.at, why.into()));
                }
                Kind::Ident(name) if names.contains(name) => {
                    return Err(Refused::Argument(node.at, format!("duplicate variable name: {name}")));
                }
                Kind::Ident(name) => names.push(name.clone()),
                _ => return Err(Refused::Argument(node.at, why.into())),
            }
        }
        let second = if count == 2 { names.pop() } else { None };
        Ok((names.pop().unwrap_or_default(), second))
    }

    fn fold(&mut self, range: Id, names: (String, Option<String>), parts: [Id; 4]) -> Built {
        let [init, condition, step, result] = parts;
        let accumulator = ACCUMULATOR.to_string();
        let (variable, second) = names;
        self.add(Kind::Fold(Box::new(Fold { range, variable, second, accumulator, init, condition, step, result })))
    }

    fn all(&mut self, range: Id, args: &[Id], variables: usize) -> Built {
        let names = self.variables(args, variables, "argument must be a simple name")?;
        let init = self.literal(Literal::Bool(true))?;
        let so_far = self.result()?;
        let condition = self.call("@not_strictly_false", vec![so_far])?;
        let so_far = self.result()?;
        let step = self.call("_&&_", vec![so_far, args[variables]])?;
        let result = self.result()?;
        self.fold(range, names, [init, condition, step, result])
    }

    fn exists(&mut self, range: Id, args: &[Id], variables: usize) -> Built {
        let names = self.variables(args, variables, "argument must be a simple name")?;
        let init = self.literal(Literal::Bool(false))?;
        let so_far = self.result()?;
        let not = self.call("!_", vec![so_far])?;
        let condition = self.call("@not_strictly_false", vec![not])?;
        let so_far = self.result()?;
        let step = self.call("_||_", vec![so_far, args[variables]])?;
        let result = self.result()?;
        self.fold(range, names, [init, condition, step, result])
    }

    fn exists_one(&mut self, range: Id, args: &[Id], variables: usize) -> Built {
        let names = self.variables(args, variables, "argument must be a simple name")?;
        let init = self.literal(Literal::Int(0))?;
        let condition = self.literal(Literal::Bool(true))?;
        let (so_far, one) = (self.result()?, self.literal(Literal::Int(1))?);
        let more = self.call("_+_", vec![so_far, one])?;
        let step = self.when(Some(args[variables]), more)?;
        let (count, one) = (self.result()?, self.literal(Literal::Int(1))?);
        let result = self.call("_==_", vec![count, one])?;
        self.fold(range, names, [init, condition, step, result])
    }

    /// `filter ? step : so far`.
    fn when(&mut self, filter: Option<Id>, step: Id) -> Built {
        let Some(filter) = filter else { return Ok(step) };
        let unchanged = self.result()?;
        self.call("_?_:_", vec![filter, step, unchanged])
    }

    fn collect(&mut self, range: Id, names: (String, Option<String>), filter: Option<Id>, element: Id) -> Built {
        let init = self.add(Kind::List(Vec::new()))?;
        let so_far = self.result()?;
        let one = self.add(Kind::List(vec![Element { value: element, optional: false }]))?;
        let step = self.call("_+_", vec![so_far, one])?;
        self.gather(range, names, init, filter, step)
    }

    fn gather(&mut self, range: Id, names: (String, Option<String>), init: Id, filter: Option<Id>, step: Id) -> Built {
        let condition = self.literal(Literal::Bool(true))?;
        let step = self.when(filter, step)?;
        let result = self.result()?;
        self.fold(range, names, [init, condition, step, result])
    }

    fn map(&mut self, range: Id, args: &[Id], variables: usize, filter: Option<Id>, element: Id) -> Built {
        let why = if variables == 1 { "argument is not an identifier" } else { "argument must be a simple name" };
        let names = self.variables(args, variables, why)?;
        self.collect(range, names, filter, element)
    }

    fn filter(&mut self, range: Id, args: &[Id]) -> Built {
        let names = self.variables(args, 1, "argument is not an identifier")?;
        self.collect(range, names, Some(args[1]), args[0])
    }

    fn transform_map(&mut self, range: Id, args: &[Id], filter: Option<Id>, value: Id) -> Built {
        let names = self.variables(args, 2, "argument must be a simple name")?;
        let init = self.add(Kind::Map(Vec::new()))?;
        let (so_far, key) = (self.result()?, self.add(Kind::Ident(names.0.clone()))?);
        let step = self.call("cel.@mapInsert", vec![so_far, key, value])?;
        self.gather(range, names, init, filter, step)
    }

    fn transform_entry(&mut self, range: Id, args: &[Id], filter: Option<Id>, entry: Id) -> Built {
        let names = self.variables(args, 2, "argument must be a simple name")?;
        let init = self.add(Kind::Map(Vec::new()))?;
        let so_far = self.result()?;
        let step = self.call("cel.@mapInsert", vec![so_far, entry])?;
        self.gather(range, names, init, filter, step)
    }

    /// `target.hasValue() ? optional.of(bind variable = target.value() in body) : optional.none()`: a loop over nothing, whose
    /// accumulator is the variable.
    fn optional_map(&mut self, target: Id, args: &[Id], function: &str) -> Built {
        let name = match &self.parser.ast[args[0]] {
            node if !matches!(node.kind, Kind::Ident(_)) => {
                let why = format!("{function}() variable name must be a simple identifier");
                return Err(Refused::Argument(node.at, why));
            }
            _ => self.variables(args, 1, "")?.0,
        };
        let present = self.method("hasValue", target)?;
        let copy = self.parser.ast.copy(target)?;
        let init = self.method("value", copy)?;
        let (range, condition) = (self.add(Kind::List(Vec::new()))?, self.literal(Literal::Bool(false))?);
        let step = self.add(Kind::Ident(name.clone()))?;
        let fold = Fold {
            range,
            variable: "#unused".into(),
            second: None,
            accumulator: name,
            init,
            condition,
            step,
            result: args[1],
        };
        let mut value = self.add(Kind::Fold(Box::new(fold)))?;
        if function == "optMap" {
            value = self.call("optional.of", vec![value])?;
        }
        let none = self.call("optional.none", Vec::new())?;
        self.call("_?_:_", vec![present, value, none])
    }
}

//! Running a plan.

mod access;
mod collect;
mod meter;
pub(crate) mod plan;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use regex::Regex;
use serde_json::Value;

use crate::decl::Decl;
use crate::error::EvalError;
use crate::functions::{self, Function};
use crate::pattern::regex;
use crate::value::{Evaluated, Key, Mapping, NO_SUCH_OVERLOAD, Text, Val, fail, no_such_overload};

pub(crate) use meter::Meter;
use plan::{Call, Op};

/// How many patterns that only turn up at run time are kept compiled.
const KEPT_PATTERNS: usize = 16;
/// What compiling one counts as, in steps.
const PATTERN_STEPS: usize = 20_000;

/// What the plan's variables are bound to.
pub(crate) struct Bindings<'a> {
    pub this: &'a Value,
    pub old: Option<&'a Value>,
    pub optional_old: bool,
    pub decl: &'a Decl,
}

/// How much room a plan needs: for variables, and for constants it sets up once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub locals: usize,
    pub constants: usize,
}

pub(crate) struct Context<'a> {
    bindings: Option<Bindings<'a>>,
    /// Constant lists and maps, set up when first needed.
    constants: Vec<Option<Val<'a>>>,
    locals: Vec<Local<'a>>,
    pub meter: Meter,
    patterns: HashMap<String, Rc<Regex>>,
}

#[derive(Clone)]
enum Local<'a> {
    /// Accumulators may hold an error that a later element makes irrelevant.
    Value(Evaluated<Val<'a>>),
    /// Not asked for yet.
    Later(&'a Op),
}

/// The outcome, and what it cost.
pub(crate) fn run<'a>(op: &'a Op, bindings: Bindings<'a>, room: Room, limit: u64) -> (Evaluated<Val<'a>>, u64) {
    let mut context = Context::new(Some(bindings), room, limit);
    let outcome = context.eval(op);
    (outcome, context.meter.spent())
}

/// The value of a plan without variables.
pub(crate) fn constant(op: &Op, room: Room) -> Evaluated<Val<'_>> {
    Context::new(None, room, crate::PER_CALL_LIMIT).eval(op)
}

impl<'a> Context<'a> {
    fn new(bindings: Option<Bindings<'a>>, room: Room, limit: u64) -> Self {
        Context {
            bindings,
            constants: vec![None; room.constants],
            locals: vec![Local::Value(Ok(Val::Null)); room.locals],
            meter: Meter::new(limit),
            patterns: HashMap::new(),
        }
    }

    pub fn eval(&mut self, op: &'a Op) -> Evaluated<Val<'a>> {
        match op {
            Op::Const(literal) => Ok(Val::literal(literal)),
            Op::Type(name) => Ok(Val::Type(name)),
            Op::This { cost } => {
                self.meter.charge(*cost)?;
                self.this()
            }
            Op::Old { cost } => {
                self.meter.charge(*cost)?;
                self.old()
            }
            Op::Local { slot, cost } => {
                self.meter.charge(*cost)?;
                self.local(*slot)
            }
            Op::Select { operand, field, optional, cost } => self.select(operand, field, *optional, *cost),
            Op::Has { operand, field, cost } => self.has(operand, field, *cost),
            Op::Index { operand, index, optional, cost } => self.index(operand, index, *optional, *cost),
            Op::And(sides) => self.logical(sides, false),
            Op::Or(sides) => self.logical(sides, true),
            Op::If(parts) => {
                let [condition, yes, no] = &**parts;
                match self.eval(condition)? {
                    Val::Bool(true) => self.eval(yes),
                    Val::Bool(false) => self.eval(no),
                    _ => no_such_overload(),
                }
            }
            Op::OrElse { sides, unwrap } => match self.eval(&sides[0])? {
                Val::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                present @ Val::Optional(Some(_)) => Ok(present),
                Val::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Op::NotStrictlyFalse(operand) => {
                self.meter.charge(1)?;
                match self.eval(operand) {
                    Err(cancelled @ EvalError::CostLimit { .. }) => Err(cancelled),
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    _ => Ok(Val::Bool(true)),
                }
            }
            Op::List { elements, cost } => self.list(elements, *cost),
            Op::Map { entries, cost } => self.map(entries, *cost),
            Op::Once { place, op } => {
                if let Some(known) = &self.constants[*place] {
                    return Ok(known.clone());
                }
                let value = self.eval(op)?;
                self.constants[*place] = Some(value.clone());
                Ok(value)
            }
            Op::Append { slot, element, cost } => self.append(*slot, element, *cost),
            Op::Insert { slot, entry } => self.insert(*slot, entry),
            Op::Call(call) => self.call(call),
            Op::Bind { slot, parts } => {
                self.locals[*slot] = Local::Later(&parts[0]);
                self.eval(&parts[1])
            }
            Op::Fold(fold) => self.fold(fold),
        }
    }

    fn local(&mut self, slot: usize) -> Evaluated<Val<'a>> {
        let value = match &self.locals[slot] {
            Local::Value(value) => return value.clone(),
            Local::Later(op) => self.eval(op),
        };
        self.locals[slot] = Local::Value(value.clone());
        value
    }

    fn this(&self) -> Evaluated<Val<'a>> {
        match &self.bindings {
            Some(bindings) => Val::bind(bindings.this, bindings.decl),
            None => fail("no such attribute(s): self"),
        }
    }

    fn old(&self) -> Evaluated<Val<'a>> {
        match &self.bindings {
            Some(Bindings { old: Some(old), optional_old, decl, .. }) => {
                let old = Val::bind(old, decl)?;
                Ok(if *optional_old { Val::some(old) } else { old })
            }
            Some(Bindings { optional_old: true, .. }) => Ok(Val::Optional(None)),
            _ => fail("no such attribute(s): oldSelf"),
        }
    }

    /// `&&` and `||`: the deciding value on either side wins over an error on the other.
    fn logical(&mut self, sides: &'a [Op; 2], deciding: bool) -> Evaluated<Val<'a>> {
        let mut failed = None;
        for side in sides {
            match self.eval(side) {
                Ok(Val::Bool(value)) if value == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| no_such_overload::<()>().err()),
                Err(cancelled @ EvalError::CostLimit { .. }) => return Err(cancelled),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Val::Bool(!deciding)), Err)
    }

    fn list(&mut self, elements: &'a [(Op, bool)], cost: u64) -> Evaluated<Val<'a>> {
        self.meter.charge(cost)?;
        self.meter.allocate(elements.len() * size_of::<Val>())?;
        let mut items = Vec::with_capacity(elements.len());
        for (op, optional) in elements {
            match self.eval(op)? {
                value if !optional => items.push(value),
                Val::Optional(Some(value)) => items.push((*value).clone()),
                Val::Optional(None) => {}
                _ => return no_such_overload(),
            }
        }
        Ok(Val::list(items))
    }

    fn map(&mut self, planned: &'a [(Op, Op, bool)], cost: u64) -> Evaluated<Val<'a>> {
        self.meter.charge(cost)?;
        self.meter.allocate(planned.len() * 4 * size_of::<Val>())?;
        let mut entries = BTreeMap::new();
        for (key, value, optional) in planned {
            let key = self.eval(key)?;
            let value = match self.eval(value)? {
                value if !optional => value,
                Val::Optional(Some(value)) => (*value).clone(),
                Val::Optional(None) => continue,
                _ => return no_such_overload(),
            };
            entries.insert(Key::new(&key)?, (key, value));
        }
        Ok(Val::Map(Mapping::Owned(Rc::new(entries))))
    }

    fn call(&mut self, call: &'a Call) -> Evaluated<Val<'a>> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut failed = None;
        for op in &call.args {
            match self.eval(op) {
                Ok(value) => args.push(value),
                Err(cancelled @ EvalError::CostLimit { .. }) => return Err(cancelled),
                Err(error) if call.args.len() > 2 || call.regex.is_some() => return Err(error),
                Err(error) => {
                    failed = failed.or(Some(error));
                    args.push(Val::Null);
                }
            }
        }
        // The reference charges for a call with one or two arguments before it finds that one has failed.
        let cost = functions::cost(call.charge, &args, self)?;
        self.meter.charge(cost)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let result = match (&call.regex, call.function) {
            (Some(regex), Function::Matching(function, _)) => function(self, &args, regex),
            (None, Function::Matching(function, complaint)) => {
                let Some(Val::String(pattern)) = args.get(1) else { return no_such_overload() };
                let regex = self.pattern(pattern, complaint)?;
                function(self, &args, &regex)
            }
            (_, Function::Plain(function)) => function(self, &args),
        };
        match result {
            Err(EvalError::Failed(why)) if why == NO_SUCH_OVERLOAD && functions::is_named(&call.name) => {
                let types: Vec<&str> = args.iter().map(Val::type_name).collect();
                fail(format!("{why}: {}({})", call.name, types.join(", ")))
            }
            result => result,
        }
    }

    fn pattern(&mut self, pattern: &Text, complaint: &str) -> Evaluated<Rc<Regex>> {
        if let Some(known) = self.patterns.get(&**pattern) {
            return Ok(known.clone());
        }
        self.meter.step(PATTERN_STEPS)?;
        let compiled = Rc::new(regex(pattern).or_else(|why| fail(format!("{complaint}{why}")))?);
        if self.patterns.len() == KEPT_PATTERNS {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.to_string(), compiled.clone());
        Ok(compiled)
    }
}

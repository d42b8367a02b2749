//! Running a plan.

mod meter;
pub(crate) mod plan;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use regex::Regex;
use serde_json::Value;

use crate::decl::Decl;
use crate::error::EvalError;
use crate::functions::{self, Function};
use crate::value::{Evaluated, Key, List, Mapping, Text, Val, fail, no_such_overload, number, regex};

pub(crate) use meter::Meter;
use plan::{Call, Field, Fold, Op};

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
                _ => no_such_overload(),
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

    fn select(&mut self, operand: &'a Op, field: &'a Field, optional: bool, cost: u64) -> Evaluated<Val<'a>> {
        let operand = self.eval(operand)?;
        let (target, optional) = match operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => ((*value).clone(), true),
            other => (other, optional),
        };
        let found = get_field(&target, field)?;
        if optional && found.is_none() {
            // The reference does not see, and so not charge, the step that leads nowhere.
            self.meter.charge(cost - 1)?;
            return Ok(Val::Optional(None));
        }
        self.meter.charge(cost)?;
        match found {
            Some(value) if optional => Ok(Val::some(value)),
            Some(value) => Ok(value),
            None => fail(format!("no such key: {}", field.name)),
        }
    }

    fn has(&mut self, operand: &'a Op, field: &'a Field, cost: u64) -> Evaluated<Val<'a>> {
        let operand = self.eval(operand)?;
        self.meter.charge(cost)?;
        let target = match operand {
            Val::Optional(None) => return Ok(Val::Bool(false)),
            Val::Optional(Some(value)) => (*value).clone(),
            other => other,
        };
        Ok(Val::Bool(matches!(target, Val::Map(_)) && get_field(&target, field)?.is_some()))
    }

    fn index(&mut self, operand: &'a Op, index: &'a Op, optional: bool, cost: u64) -> Evaluated<Val<'a>> {
        let operand = self.eval(operand)?;
        let index = match self.eval(index) {
            Err(error @ EvalError::Failed(_)) => {
                self.meter.charge(cost)?;
                return Err(error);
            }
            index => index?,
        };
        let (target, optional) = match operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => ((*value).clone(), true),
            other => (other, optional),
        };
        let found = match &target {
            Val::List(list) => match position(&index) {
                Ok(Some(place)) => list.get(place).transpose(),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            Val::Map(map) => map.find(&index),
            _ => no_such_overload(),
        };
        if optional && matches!(found, Ok(None)) {
            self.meter.charge(cost - 1)?;
            return Ok(Val::Optional(None));
        }
        self.meter.charge(cost)?;
        match found? {
            Some(value) if optional => Ok(Val::some(value)),
            Some(value) => Ok(value),
            None if matches!(target, Val::List(_)) => fail(format!("index out of bounds: {}", functions::show(&index))),
            None => fail(format!("no such key: {}", functions::show(&index))),
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

    /// Takes the accumulator out of its place, so that it is changed and not copied.
    fn take(&mut self, slot: usize) -> Evaluated<Val<'a>> {
        match std::mem::replace(&mut self.locals[slot], Local::Value(Ok(Val::Null))) {
            Local::Value(value) => value,
            Local::Later(_) => no_such_overload(),
        }
    }

    fn append(&mut self, slot: usize, element: &'a Op, cost: u64) -> Evaluated<Val<'a>> {
        self.meter.charge(cost)?;
        let element = self.eval(element);
        match (self.take(slot)?, element?) {
            (Val::List(List::Owned { mut items, identity }), element) => {
                self.meter.allocate(size_of::<Val>())?;
                Rc::make_mut(&mut items).push(element);
                Ok(Val::List(List::Owned { items, identity }))
            }
            _ => no_such_overload(),
        }
    }

    fn insert(&mut self, slot: usize, entry: &'a [Op]) -> Evaluated<Val<'a>> {
        self.meter.charge(1)?;
        if let Local::Value(Err(error)) = &self.locals[slot] {
            return Err(error.clone());
        }
        self.meter.charge(1)?;
        let mut parts = Vec::with_capacity(2);
        for op in entry {
            parts.push(self.eval(op)?);
        }
        let Val::Map(Mapping::Owned(mut entries)) = self.take(slot)? else { return no_such_overload() };
        let new = match &parts[..] {
            [key, value] => vec![(key.clone(), value.clone())],
            [Val::Map(map)] => {
                let mut new = Vec::new();
                for key in map.keys() {
                    if let Some(value) = map.find(&key)? {
                        new.push((key, value));
                    }
                }
                new
            }
            _ => return no_such_overload(),
        };
        self.meter.allocate(new.len() * 4 * size_of::<Val>())?;
        let into = Rc::make_mut(&mut entries);
        for (key, value) in new {
            let name = Key::new(&key)?;
            if into.contains_key(&name) {
                return fail(format!("insert failed: key {} already exists", functions::show(&key)));
            }
            into.insert(name, (key, value));
        }
        Ok(Val::Map(Mapping::Owned(entries)))
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
        match (&call.regex, call.function) {
            (Some(regex), Function::Matching(function, _)) => function(self, &args, regex),
            (None, Function::Matching(function, complaint)) => {
                let Some(Val::String(pattern)) = args.get(1) else { return no_such_overload() };
                let regex = self.pattern(pattern, complaint)?;
                function(self, &args, &regex)
            }
            (_, Function::Plain(function)) => function(self, &args),
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

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<Val<'a>> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        self.set(fold.accumulator, init)?;
        match &range {
            Val::List(list) => {
                for place in 0..list.len() {
                    let element = list.get(place).unwrap_or_else(no_such_overload);
                    let first = if fold.second.is_some() { Ok(Val::Int(place as i64)) } else { element.clone() };
                    if !self.iterate(fold, first, || element)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                self.meter.allocate(map.len() * size_of::<Val>())?;
                for key in map.keys() {
                    let value = || map.find(&key).and_then(|value| value.map_or_else(no_such_overload, Ok));
                    if !self.iterate(fold, Ok(key.clone()), value)? {
                        break;
                    }
                }
            }
            other => return fail(format!("got '{}', expected iterable type", other.type_name())),
        }
        self.eval(&fold.result)
    }

    /// Errors are kept in variables; running out of budget ends it all.
    fn set(&mut self, slot: usize, value: Evaluated<Val<'a>>) -> Evaluated<()> {
        if let Err(cancelled @ EvalError::CostLimit { .. }) = value {
            return Err(cancelled);
        }
        self.locals[slot] = Local::Value(value);
        Ok(())
    }

    /// One round; whether there shall be another.
    fn iterate(
        &mut self,
        fold: &'a Fold,
        first: Evaluated<Val<'a>>,
        second: impl FnOnce() -> Evaluated<Val<'a>>,
    ) -> Evaluated<bool> {
        self.meter.step(1)?;
        self.set(fold.first, first)?;
        if let Some(slot) = fold.second {
            self.set(slot, second())?;
        }
        match self.eval(&fold.condition) {
            Err(cancelled @ EvalError::CostLimit { .. }) => return Err(cancelled),
            Ok(Val::Bool(false)) => return Ok(false),
            _ => {}
        }
        let outcome = self.eval(&fold.step);
        self.set(fold.accumulator, outcome)?;
        Ok(true)
    }
}

fn get_field<'a>(target: &Val<'a>, field: &'a Field) -> Evaluated<Option<Val<'a>>> {
    match (target, &field.raw) {
        (Val::Map(map @ Mapping::Object { .. }), Some(raw)) => map.raw(raw),
        (Val::Map(Mapping::Object { .. }), None) => Ok(None),
        (Val::Map(map @ Mapping::Json { .. }), _) => map.raw(&field.name),
        (Val::Map(map), _) => map.find(&Val::from(field.name.as_str())),
        _ => no_such_overload(),
    }
}

/// A list index; nothing if it is out of any list's bounds.
fn position(index: &Val) -> Evaluated<Option<usize>> {
    let place = match index {
        Val::Int(place) => *place,
        Val::Uint(place) => return Ok(usize::try_from(*place).ok()),
        Val::Double(place) if place.fract() == 0.0 => number::double_to_int(*place).unwrap_or(-1),
        Val::Double(place) => return fail(format!("unsupported index value {place} in list")),
        other => return fail(format!("unsupported index type '{}' in list", other.type_name())),
    };
    Ok(usize::try_from(place).ok())
}

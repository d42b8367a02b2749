//! Loops, and what they collect.

use std::rc::Rc;

use super::plan::{Fold, Op};
use super::{Context, Local};
use crate::error::EvalError;
use crate::functions;
use crate::value::{Evaluated, Key, List, Mapping, Val, fail, no_such_overload};

impl<'a> Context<'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Evaluated<Val<'a>> {
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

    /// Takes the accumulator out of its place, so that it is changed and not copied.
    fn take(&mut self, slot: usize) -> Evaluated<Val<'a>> {
        match std::mem::replace(&mut self.locals[slot], Local::Value(Ok(Val::Null))) {
            Local::Value(value) => value,
            Local::Later(_) => no_such_overload(),
        }
    }

    pub(super) fn append(&mut self, slot: usize, element: &'a Op, cost: u64) -> Evaluated<Val<'a>> {
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

    pub(super) fn insert(&mut self, slot: usize, entry: &'a [Op]) -> Evaluated<Val<'a>> {
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
}

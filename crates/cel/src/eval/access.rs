//! Fields and elements.

use super::Context;
use super::plan::{Field, Op};
use crate::error::EvalError;
use crate::functions;
use crate::value::{Evaluated, Mapping, Val, fail, number};

impl<'a> Context<'a> {
    pub(super) fn select(
        &mut self,
        operand: &'a Op,
        field: &'a Field,
        optional: bool,
        cost: u64,
    ) -> Evaluated<Val<'a>> {
        let operand = self.eval(operand)?;
        let (target, optional) = match operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => ((*value).clone(), true),
            other => (other, optional),
        };
        let found = match get_field(&target, field) {
            Err(error) => {
                self.meter.charge(cost)?;
                return Err(error);
            }
            Ok(found) => found,
        };
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

    pub(super) fn has(&mut self, operand: &'a Op, field: &'a Field, cost: u64) -> Evaluated<Val<'a>> {
        let operand = self.eval(operand)?;
        self.meter.charge(cost)?;
        let target = match operand {
            Val::Optional(None) => return Ok(Val::Bool(false)),
            Val::Optional(Some(value)) => (*value).clone(),
            other => other,
        };
        Ok(Val::Bool(matches!(target, Val::Map(_)) && get_field(&target, field)?.is_some()))
    }

    pub(super) fn index(&mut self, operand: &'a Op, index: &'a Op, optional: bool, cost: u64) -> Evaluated<Val<'a>> {
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
            _ => Ok(None),
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
}

fn get_field<'a>(target: &Val<'a>, field: &'a Field) -> Evaluated<Option<Val<'a>>> {
    match (target, &field.raw) {
        (Val::Map(map @ Mapping::Object { .. }), Some(raw)) => map.raw(raw),
        (Val::Map(Mapping::Object { .. }), None) => Ok(None),
        (Val::Map(map @ Mapping::Json { .. }), _) => map.raw(&field.name),
        (Val::Map(map), _) => map.find(&Val::from(field.name.as_str())),
        (Val::List(_), _) => position(&Val::from(field.name.as_str())).map(|_| None),
        _ => Ok(None),
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

//! Conversions between types.

use crate::eval::Context;
use crate::value::number::{double_to_int, double_to_uint, format_double, int, uint};
use crate::value::{Evaluated, Val, fail, no_such_overload, time};

fn wrong<'a>(value: &Val, wanted: &str) -> Evaluated<Val<'a>> {
    fail(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
}

pub(super) fn type_of<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Type(args[0].type_name()))
}

pub(super) fn identity<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(args[0].clone())
}

pub(super) fn to_bool<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Bool(value) => Ok(Val::Bool(*value)),
        Val::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => wrong(&args[0], "bool"),
        },
        _ => no_such_overload(),
    }
}

pub(super) fn to_bytes<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Bytes(bytes) => Ok(Val::Bytes(bytes.clone())),
        Val::String(text) => {
            context.meter.allocate(text.len())?;
            Ok(Val::Bytes(text.as_bytes().into()))
        }
        _ => no_such_overload(),
    }
}

pub(super) fn to_double<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Double(match &args[0] {
        Val::Double(value) => *value,
        Val::Int(value) => *value as f64,
        Val::Uint(value) => *value as f64,
        Val::String(text) => match text.parse() {
            Ok(value) => value,
            Err(_) => return wrong(&args[0], "double"),
        },
        _ => return no_such_overload(),
    }))
}

pub(crate) fn to_duration<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Duration(nanos) | Val::Int(nanos) => Ok(Val::Duration(*nanos)),
        Val::String(text) => match time::parse_duration(text) {
            Some(nanos) => Ok(Val::Duration(nanos)),
            None => wrong(&args[0], "google.protobuf.Duration"),
        },
        _ => no_such_overload(),
    }
}

pub(super) fn to_int<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Int(value) | Val::Duration(value) => Ok(Val::Int(*value)),
        Val::Uint(value) => int(i64::try_from(*value).ok()),
        Val::Double(value) => int(double_to_int(*value)),
        Val::Timestamp(time) => Ok(Val::Int(time.seconds)),
        Val::String(text) => match text.parse() {
            Ok(value) => Ok(Val::Int(value)),
            Err(_) => wrong(&args[0], "int"),
        },
        _ => no_such_overload(),
    }
}

pub(super) fn to_string<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::from(match &args[0] {
        Val::String(text) => return Ok(Val::String(text.clone())),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => format_double(*value),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => time::format_duration(*nanos),
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(cidr) => cidr.to_string(),
        Val::Bytes(bytes) => {
            context.meter.allocate(bytes.len())?;
            match String::from_utf8(bytes.to_vec()) {
                Ok(text) => text,
                Err(_) => return fail("invalid UTF-8 in bytes, cannot convert to string"),
            }
        }
        _ => return no_such_overload(),
    }))
}

pub(super) fn to_timestamp<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let found = match &args[0] {
        Val::Timestamp(time) => Some(*time),
        Val::Int(seconds) => match time::timestamp_from_seconds(*seconds) {
            None => return fail("timestamp overflow"),
            found => found,
        },
        Val::String(text) => time::parse_timestamp(text),
        _ => return no_such_overload(),
    };
    match found {
        Some(time) => Ok(Val::Timestamp(time)),
        None => wrong(&args[0], "google.protobuf.Timestamp"),
    }
}

pub(super) fn to_uint<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::Uint(value) => Ok(Val::Uint(*value)),
        Val::Int(value) => uint(u64::try_from(*value).ok()),
        Val::Double(value) => uint(double_to_uint(*value)),
        Val::String(text) if !text.starts_with('+') => match text.parse() {
            Ok(value) => Ok(Val::Uint(value)),
            Err(_) => wrong(&args[0], "uint"),
        },
        Val::String(_) => wrong(&args[0], "uint"),
        _ => no_such_overload(),
    }
}

//! Kubernetes quantities: `1.5Gi`, `100m`, `2e3`.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::eval::Context;
use crate::value::{Evaluated, Val, fail, no_such_overload};

const UNIT: i128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    /// In billionths, the smallest a quantity knows; what is smaller was rounded up.
    nanos: i128,
    /// The power of ten it is held in; none if it needs more digits than 64 bits have. Only a quantity without decimals, by this
    /// measure, is an integer: `1000m` is not.
    scale: Option<i32>,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Quantity {
    pub fn parse(text: &str) -> Result<Quantity, &'static str> {
        const FORMAT: &str =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        const SUFFIX: &str = "unable to parse quantity's suffix";
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
            None => return Err(FORMAT),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, mut rest) = rest.split_at(digits(rest));
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(digits(after));
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(FORMAT);
        }
        let letters = rest.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
        let tail = rest[letters..].trim_start_matches(['+', '-']);
        if rest[letters..].len() - tail.len() > 1 || digits(tail) != tail.len() {
            return Err(FORMAT);
        }
        let whole = whole.trim_start_matches('0');
        let (binary, exponent) = suffix(rest).ok_or(SUFFIX)?;
        let length = whole.len().max(1) + fraction.len();
        let held = if binary {
            let precision = 14 - length as i64 - i64::from(exponent) * 3 / 10;
            (fraction.is_empty() && precision >= 0).then_some(0)
        } else {
            let scale = exponent - fraction.len() as i32;
            (length <= 18 && scale >= -9).then_some(scale)
        };
        let mut quantity = Quantity { nanos: exact(whole, fraction, binary, exponent), scale: held };
        if held.is_none() {
            quantity.nanos = quantity.nanos.min(i128::from(i64::MAX) * UNIT);
        }
        if negative {
            quantity.nanos = -quantity.nanos;
        }
        Ok(quantity)
    }

    fn integer(&self) -> Option<i64> {
        match self.scale {
            Some(scale) if scale >= 0 => i64::try_from(self.nanos / UNIT).ok(),
            _ => None,
        }
    }

    fn plus(&self, other: &Quantity) -> Quantity {
        let scale = match (self.scale, other.scale) {
            (one, _) if other.nanos == 0 => one,
            (_, two) if self.nanos == 0 => two,
            (Some(one), Some(two)) => Some(one.min(two)),
            _ => None,
        };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), scale }
    }

    fn negated(&self) -> Quantity {
        Quantity { nanos: self.nanos.saturating_neg(), ..*self }
    }

    pub fn order(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Whether the suffix counts in powers of two, and which power.
fn suffix(text: &str) -> Option<(bool, i32)> {
    let decimal = |exponent| Some((false, exponent));
    match text {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some((true, 10)),
        "Mi" => Some((true, 20)),
        "Gi" => Some((true, 30)),
        "Ti" => Some((true, 40)),
        "Pi" => Some((true, 50)),
        "Ei" => Some((true, 60)),
        _ => decimal(text.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

/// The value in billionths, rounded up; as large as fits if it is larger.
fn exact(whole: &str, fraction: &str, binary: bool, exponent: i32) -> i128 {
    // Digits far beyond what can matter are not worth reading.
    const KEPT: usize = 27;
    let number = |text: &str| text.bytes().fold(0i128, |n, digit| n * 10 + i128::from(digit - b'0'));
    if whole.len() > KEPT {
        return i128::MAX;
    }
    let kept = &fraction[..fraction.len().min(KEPT - whole.len())];
    let mantissa = number(&format!("{whole}{kept}"));
    if mantissa == 0 {
        return 0;
    }
    let places = 9 - kept.len() as i32 + if binary { 0 } else { exponent.clamp(-1000, 1000) };
    let factor = if binary { 1i128 << exponent } else { 1 };
    if places >= 0 {
        let power = 10i128.checked_pow(places as u32);
        return power
            .and_then(|power| mantissa.checked_mul(power))
            .and_then(|value| value.checked_mul(factor))
            .unwrap_or(i128::MAX);
    }
    let Some(divisor) = 10i128.checked_pow(places.unsigned_abs()) else { return 1 };
    let product = mantissa.checked_mul(factor).unwrap_or(i128::MAX);
    product / divisor + i128::from(product % divisor != 0)
}

fn of<'v>(value: &'v Val) -> Evaluated<&'v Quantity> {
    match value {
        Val::Quantity(quantity) => Ok(quantity),
        _ => no_such_overload(),
    }
}

fn made<'a>(quantity: Quantity) -> Val<'a> {
    Val::Quantity(Rc::new(quantity))
}

pub(super) fn quantity<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::String(text) => Quantity::parse(text).map(made).or_else(fail),
        _ => no_such_overload(),
    }
}

pub(super) fn is_quantity<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    match &args[0] {
        Val::String(text) => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(super) fn sign<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Int(of(&args[0])?.nanos.signum() as i64))
}

pub(super) fn is_integer<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(of(&args[0])?.integer().is_some()))
}

pub(super) fn as_integer<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    of(&args[0])?.integer().map_or_else(|| fail("cannot convert value to integer"), |value| Ok(Val::Int(value)))
}

pub(super) fn as_float<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Double(of(&args[0])?.nanos as f64 / UNIT as f64))
}

fn operand(value: &Val) -> Evaluated<Quantity> {
    match value {
        Val::Int(value) => Ok(Quantity { nanos: i128::from(*value) * UNIT, scale: Some(0) }),
        other => of(other).copied(),
    }
}

pub(super) fn add<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(made(of(&args[0])?.plus(&operand(&args[1])?)))
}

pub(super) fn subtract<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(made(of(&args[0])?.plus(&operand(&args[1])?.negated())))
}

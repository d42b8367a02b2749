//! `'…%s…'.format([…])`.

use super::strings::quoted;
use crate::check::types::Type;
use crate::eval::{Context, Meter};
use crate::value::number::format_double;
use crate::value::{Evaluated, Val, fail, no_such_overload, time};

const PLAIN: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";

/// One piece of a format string.
enum Piece<'t> {
    Text(&'t str),
    Verb(char, usize),
}

/// Decimals unless the clause says otherwise.
const PRECISION: usize = 6;

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        out.push(Piece::Text(&rest[..percent]));
        rest = &rest[percent + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push(Piece::Text("%"));
            rest = after;
            continue;
        }
        let mut precision = PRECISION;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            precision = after[..digits].parse().map_err(|_| {
                format!(
                    "could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing \"{}\": invalid syntax",
                    &after[..digits]
                )
            })?;
            rest = &after[digits..];
        }
        let verb = rest.chars().next().ok_or("unexpected end of string")?;
        if !"sdfebxXo".contains(verb) {
            return Err(format!("could not parse formatting clause: unrecognized formatting clause \"{verb}\""));
        }
        if precision > 1000 {
            return Err("could not parse formatting clause: precision too large".into());
        }
        out.push(Piece::Verb(verb, precision));
        rest = &rest[1..];
    }
    out.push(Piece::Text(rest));
    Ok(out)
}

pub(super) fn format<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (Val::String(text), Val::List(values)) = (&args[0], &args[1]) else { return no_such_overload() };
    let mut out = Writer { out: String::new(), meter: &mut context.meter };
    let mut next = 0;
    for piece in pieces(text).or_else(fail)? {
        match piece {
            Piece::Text(text) => out.push(text)?,
            Piece::Verb(verb, precision) => {
                let Some(value) = values.get(next) else { return fail(format!("index {next} out of range")) };
                out.verb(verb, precision, &value?)?;
                next += 1;
            }
        }
    }
    if next < values.len() {
        let given = values.len();
        return fail(format!("too many arguments supplied to string.format (expected {next}, got {given})"));
    }
    Ok(Val::from(out.out))
}

/// What is wrong with a constant format string and arguments of these types: the argument's place, if it is one of them.
pub(crate) fn check(text: &str, types: &[Type]) -> Option<(Option<usize>, String)> {
    let pieces = match pieces(text) {
        Ok(pieces) => pieces,
        Err(why) => return Some((None, why)),
    };
    let mut next = 0;
    for piece in pieces {
        let Piece::Verb(verb, _) = piece else { continue };
        let Some(of) = types.get(next) else { return Some((None, format!("index {next} out of range"))) };
        if let Some(why) = misfit(verb, of) {
            return Some((Some(next), format!("error during formatting: {why}")));
        }
        next += 1;
    }
    let given = types.len();
    (next < given)
        .then(|| (None, format!("too many arguments supplied to string.format (expected {next}, got {given})")))
}

fn misfit(verb: char, of: &Type) -> Option<String> {
    let (fits, wanted) = match verb {
        's' => (!matches!(of, Type::Object(_) | Type::Named(_) | Type::Optional(_)), PLAIN),
        'd' => (matches!(of, Type::Int | Type::Uint), "decimal clause can only be used on integers"),
        'f' => (matches!(of, Type::Double), "fixed-point clause can only be used on doubles"),
        'e' => (matches!(of, Type::Double), "scientific clause can only be used on doubles"),
        'b' => {
            (matches!(of, Type::Int | Type::Uint | Type::Bool), "only integers and bools can be formatted as binary")
        }
        'o' => (matches!(of, Type::Int | Type::Uint), "octal clause can only be used on integers"),
        _ => (
            matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
    };
    let name = match of {
        Type::Optional(_) => "optional_type".into(),
        Type::List(_) => "list".into(),
        Type::Map(..) => "map".into(),
        Type::Meta(_) => "type".into(),
        Type::Null => "null_type".into(),
        Type::Timestamp => "google.protobuf.Timestamp".into(),
        Type::Duration => "google.protobuf.Duration".into(),
        other => other.to_string(),
    };
    (!fits && !matches!(of, Type::Dyn | Type::Error)).then(|| format!("{wanted}, was given {name}"))
}

struct Writer<'m> {
    out: String,
    meter: &'m mut Meter,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) -> Evaluated<()> {
        self.meter.allocate(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn verb(&mut self, verb: char, precision: usize, value: &Val) -> Evaluated<()> {
        let wrong = |wanted: &str| fail(format!("error during formatting: {wanted}, was given {}", value.type_name()));
        let text = match (verb, value) {
            ('s', value) => return self.plain(value),
            ('d', Val::Int(value)) => value.to_string(),
            ('d', Val::Uint(value)) => value.to_string(),
            ('d', Val::Double(value)) if !value.is_finite() => format_double(*value),
            ('d', _) => return wrong("decimal clause can only be used on integers"),
            ('f', Val::Double(value)) => fixed(*value, precision),
            ('f', _) => return wrong("fixed-point clause can only be used on doubles"),
            // The reference drops the precision of this one.
            ('e', Val::Double(value)) => scientific(*value, PRECISION),
            ('e', _) => return wrong("scientific clause can only be used on doubles"),
            ('b', Val::Bool(value)) => u8::from(*value).to_string(),
            ('b' | 'o' | 'x' | 'X', Val::Int(value)) => {
                let sign = if *value < 0 { "-" } else { "" };
                format!("{sign}{}", radix(verb, value.unsigned_abs()))
            }
            ('b' | 'o' | 'x' | 'X', Val::Uint(value)) => radix(verb, *value),
            ('b', _) => return wrong("only integers and bools can be formatted as binary"),
            ('o', _) => return wrong("octal clause can only be used on integers"),
            (verb, Val::String(text)) => return self.hex(text.as_bytes(), verb == 'X'),
            (verb, Val::Bytes(bytes)) => return self.hex(bytes, verb == 'X'),
            _ => return wrong("only integers, byte buffers, and strings can be formatted as hex"),
        };
        self.push(&text)
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) -> Evaluated<()> {
        self.meter.allocate(bytes.len() * 2)?;
        for byte in bytes {
            self.out.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        Ok(())
    }

    /// `%s`.
    fn plain(&mut self, value: &Val) -> Evaluated<()> {
        match value {
            Val::String(text) => self.push(text),
            Val::Bytes(bytes) => self.push(&String::from_utf8_lossy(bytes)),
            Val::Double(value) => self.push(&format_double(*value)),
            Val::Duration(nanos) => self.push(&time::format_duration(*nanos)),
            Val::Timestamp(time) => self.push(&time.to_string()),
            Val::Type(name) => self.push(name),
            other => self.nested(other),
        }
    }

    /// Within lists and maps values show their type.
    fn nested(&mut self, value: &Val) -> Evaluated<()> {
        match value {
            Val::Null => self.push("null"),
            Val::Bool(value) => self.push(&value.to_string()),
            Val::Int(value) => self.push(&value.to_string()),
            Val::Uint(value) => self.push(&value.to_string()),
            Val::Double(value) if value.is_finite() => self.push(&fixed(*value, PRECISION)),
            Val::Double(value) => self.push(&format!("\"{}\"", format_double(*value).trim_start_matches('+'))),
            Val::String(text) => self.push(&quoted(text)),
            Val::Bytes(bytes) => self.push(&format!("b{}", quoted(&String::from_utf8_lossy(bytes)))),
            Val::Duration(nanos) => self.push(&format!("duration(\"{}\")", time::format_duration(*nanos))),
            Val::Timestamp(time) => self.push(&format!("timestamp(\"{time}\")")),
            Val::Type(name) => self.push(name),
            Val::List(list) => {
                self.push("[")?;
                for (place, item) in list.iter().enumerate() {
                    self.push(if place > 0 { ", " } else { "" })?;
                    self.nested(&item?)?;
                }
                self.push("]")
            }
            Val::Map(map) => {
                self.push("{")?;
                for (place, key) in map.keys().iter().enumerate() {
                    self.push(if place > 0 { ", " } else { "" })?;
                    self.nested(key)?;
                    self.push(":")?;
                    self.nested(&map.find(key)?.unwrap_or(Val::Null))?;
                }
                self.push("}")
            }
            other => fail(format!("error during formatting: {PLAIN}, was given {}", other.type_name())),
        }
    }
}

fn radix(verb: char, value: u64) -> String {
    match verb {
        'b' => format!("{value:b}"),
        'o' => format!("{value:o}"),
        'x' => format!("{value:x}"),
        _ => format!("{value:X}"),
    }
}

fn unbounded(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

fn fixed(value: f64, precision: usize) -> String {
    unbounded(value).map_or_else(|| format!("{value:.precision$}"), str::to_string)
}

/// `1.234500×10⁰³`.
fn scientific(value: f64, precision: usize) -> String {
    if let Some(name) = unbounded(value) {
        return name.into();
    }
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, magnitude) = match exponent.strip_prefix('-') {
        Some(magnitude) => ("⁻", magnitude),
        None => ("", exponent),
    };
    let raised: String = format!("{magnitude:0>2}")
        .chars()
        .map(|digit| ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit.to_digit(10).unwrap_or(0) as usize])
        .collect();
    format!("{digits}×10{sign}{raised}")
}

//! What literals stand for.

use super::ast::Literal;

pub(crate) fn int(text: &str, negative: bool) -> Option<Literal> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok().map(Literal::Int)
}

pub(crate) fn uint(text: &str) -> Option<Literal> {
    let text = text.trim_end_matches(['u', 'U']);
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, radix).ok().map(Literal::Uint)
}

pub(crate) fn double(text: &str, negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Literal::Double(if negative { -value } else { value }))
}

pub(crate) fn string(text: &str) -> Result<Literal, &'static str> {
    let mut out = String::new();
    unescape(text, |unit| match unit {
        Unit::Text(text) => {
            out.push_str(text);
            Ok(())
        }
        Unit::Byte(byte) => {
            out.push(char::from(byte));
            Ok(())
        }
        Unit::Char(c) => {
            out.push(char::from_u32(c).ok_or("invalid unicode code point")?);
            Ok(())
        }
    })?;
    Ok(Literal::String(out))
}

pub(crate) fn bytes(text: &str) -> Result<Literal, &'static str> {
    let mut out = Vec::new();
    unescape(&text[1..], |unit| match unit {
        Unit::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        Unit::Byte(byte) => {
            out.push(byte);
            Ok(())
        }
        Unit::Char(_) => Err("unable to unescape string"),
    })?;
    Ok(Literal::Bytes(out))
}

enum Unit<'s> {
    Text(&'s str),
    /// `\x41`, `\101`: a character of a string, a byte of bytes.
    Byte(u8),
    /// `\u0041`: only in strings.
    Char(u32),
}

/// The lexer has seen that every escape is well formed; values are judged by the caller.
fn unescape<'s>(text: &'s str, mut emit: impl FnMut(Unit<'s>) -> Result<(), &'static str>) -> Result<(), &'static str> {
    let body = text.trim_start_matches(['r', 'R']);
    let raw = body.len() < text.len();
    let quotes = if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let mut body = &body[quotes..body.len() - quotes];
    if raw {
        return emit(Unit::Text(body));
    }
    while let Some(slash) = body.find('\\') {
        emit(Unit::Text(&body[..slash]))?;
        let kind = body.as_bytes().get(slash + 1).copied().ok_or("unable to unescape string")?;
        let rest = &body[slash + 2..];
        let digits = |count: usize, radix: u32| {
            let digits = rest.get(..count).ok_or("unable to unescape string")?;
            u32::from_str_radix(digits, radix).map_err(|_| "unable to unescape string")
        };
        let plain = |byte: u8| (Unit::Byte(byte), 0);
        let (unit, used) = match kind {
            b'a' => plain(7),
            b'b' => plain(8),
            b'f' => plain(12),
            b'n' => plain(b'\n'),
            b'r' => plain(b'\r'),
            b't' => plain(b'\t'),
            b'v' => plain(11),
            b'x' | b'X' => (Unit::Byte(digits(2, 16)? as u8), 2),
            b'u' => (Unit::Char(digits(4, 16)?), 4),
            b'U' => (Unit::Char(digits(8, 16)?), 8),
            b'0'..=b'3' => (Unit::Byte((u32::from(kind - b'0') * 64 + digits(2, 8)?) as u8), 2),
            other => plain(other),
        };
        emit(unit)?;
        body = &rest[used..];
    }
    emit(Unit::Text(body))
}

//! Strings and patterns. Places count characters, not bytes.

use regex::Regex;

use crate::eval::{Context, Meter};
use crate::value::{Evaluated, Val, fail, no_such_overload};

pub(super) fn text<'v>(value: &'v Val) -> Evaluated<&'v str> {
    match value {
        Val::String(text) => Ok(text),
        _ => no_such_overload(),
    }
}

fn optional_int(value: Option<&Val>) -> Evaluated<Option<i64>> {
    match value {
        None => Ok(None),
        Some(Val::Int(value)) => Ok(Some(*value)),
        Some(_) => no_such_overload(),
    }
}

/// The byte offset of the so many-th character; the end counts as one more.
fn offset(text: &str, place: i64) -> Option<usize> {
    let place = usize::try_from(place).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(place)
}

fn made<'a>(context: &mut Context<'a>, text: String) -> Evaluated<Val<'a>> {
    context.meter.allocate(text.len())?;
    Ok(Val::from(text))
}

pub(super) fn contains<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(text(&args[0])?.contains(text(&args[1])?)))
}

pub(super) fn starts_with<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(text(&args[0])?.starts_with(text(&args[1])?)))
}

pub(super) fn ends_with<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(text(&args[0])?.ends_with(text(&args[1])?)))
}

pub(super) fn char_at<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, Val::Int(place)) = (text(&args[0])?, &args[1]) else { return no_such_overload() };
    context.meter.step(text.len() / 64)?;
    match offset(text, *place) {
        Some(at) => Ok(Val::from(text[at..].chars().take(1).collect::<String>())),
        None => fail(format!("index out of range: {place}")),
    }
}

pub(super) fn index_of<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, wanted, from) = (text(&args[0])?, text(&args[1])?, optional_int(args.get(2))?.unwrap_or(0));
    if from < 0 {
        return fail(format!("index out of range: {from}"));
    }
    if wanted.is_empty() {
        return Ok(Val::Int(from));
    }
    let found = offset(text, from).and_then(|at| text[at..].find(wanted).map(|found| at + found));
    Ok(Val::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

pub(super) fn last_index_of<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, wanted, from) = (text(&args[0])?, text(&args[1])?, optional_int(args.get(2))?);
    let size = text.chars().count() as i64;
    match from {
        Some(from) if from < 0 => return fail(format!("index out of range: {from}")),
        _ if wanted.is_empty() => return Ok(Val::Int(from.unwrap_or(size))),
        Some(from) if from >= size => return Ok(Val::Int(-1)),
        _ => {}
    }
    // A match may begin at the place, so it may end as far behind it as it is long.
    let end = match from {
        None => text.len(),
        Some(from) => offset(text, from).map_or(text.len(), |at| (at + wanted.len()).min(text.len())),
    };
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    Ok(Val::Int(text[..end].rfind(wanted).map_or(-1, |at| text[..at].chars().count() as i64)))
}

pub(super) fn lower<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    made(context, text(&args[0])?.to_ascii_lowercase())
}

pub(super) fn upper<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    made(context, text(&args[0])?.to_ascii_uppercase())
}

pub(super) fn trim<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    made(context, text(&args[0])?.trim().to_string())
}

pub(super) fn substring<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, Val::Int(from), to) = (text(&args[0])?, &args[1], optional_int(args.get(2))?) else {
        return no_such_overload();
    };
    if let Some(to) = to
        && *from > to
    {
        return fail(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let Some(start) = offset(text, *from) else { return fail(format!("index out of range: {from}")) };
    let end = match to {
        None => Some(text.len()),
        Some(to) => offset(text, to),
    };
    match end {
        Some(end) => made(context, text[start..end].to_string()),
        None => fail(format!("index out of range: {}", to.unwrap_or_default())),
    }
}

pub(super) fn replace<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let most = optional_int(args.get(3))?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let count = text.matches(old).take(most).count();
    context.meter.allocate(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Val::from(text.replacen(old, new, count)))
}

pub(super) fn split<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (text, separator) = (text(&args[0])?, text(&args[1])?);
    let most = optional_int(args.get(2))?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let parts = if separator.is_empty() { text.chars().count() } else { text.matches(separator).count() + 1 };
    context.meter.allocate(parts.min(most) * (size_of::<Val>() + 16) + text.len())?;
    if separator.is_empty() {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = if pieces.len() + 1 >= most { rest.len() } else { first.len_utf8() };
            if pieces.len() < most {
                pieces.push(Val::from(rest[..end].to_string()));
            }
            rest = &rest[end..];
        }
        return Ok(Val::list(pieces));
    }
    Ok(Val::list(text.splitn(most, separator).map(|piece| Val::from(piece.to_string())).collect()))
}

/// How long the joined string will be, for its cost.
pub(super) fn joined_size(args: &[Val], meter: &mut Meter) -> Evaluated<u64> {
    let Val::List(list) = &args[0] else { return Ok(0) };
    let separator = args.get(1).map_or(0, Val::size);
    let mut size = separator * (list.len() as u64).saturating_sub(1);
    for item in list.iter() {
        size += super::measure(&item?, meter)?;
    }
    Ok(size)
}

pub(super) fn join<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let Val::List(list) = &args[0] else { return no_such_overload() };
    let separator = args.get(1).map_or(Ok(""), text)?;
    let mut out = String::new();
    for (place, item) in list.iter().enumerate() {
        let item = item?;
        let piece = text(&item)?;
        context.meter.allocate(piece.len() + separator.len())?;
        if place > 0 {
            out.push_str(separator);
        }
        out.push_str(piece);
    }
    Ok(Val::from(out))
}

pub(super) fn quote<'a>(context: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let text = text(&args[0])?;
    context.meter.allocate(text.len() * 2)?;
    Ok(Val::from(quoted(text)))
}

/// In double quotes, with the escapes a reader would need.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

pub(super) fn matches<'a>(_: &mut Context<'a>, args: &[Val<'a>], regex: &Regex) -> Evaluated<Val<'a>> {
    Ok(Val::Bool(regex.is_match(text(&args[0])?)))
}

pub(super) fn find<'a>(context: &mut Context<'a>, args: &[Val<'a>], regex: &Regex) -> Evaluated<Val<'a>> {
    let found = regex.find(text(&args[0])?).map_or("", |found| found.as_str());
    made(context, found.to_string())
}

pub(super) fn find_all<'a>(context: &mut Context<'a>, args: &[Val<'a>], regex: &Regex) -> Evaluated<Val<'a>> {
    let text = text(&args[0])?;
    let most = optional_int(args.get(2))?.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for hit in regex.find_iter(text).take(most) {
        context.meter.allocate(size_of::<Val>() + hit.len())?;
        found.push(Val::from(hit.as_str().to_string()));
    }
    Ok(Val::list(found))
}

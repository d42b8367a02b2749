//! Named formats: what Kubernetes demands of names, labels and the like.

use super::Plain;
use super::url::Url;
use crate::eval::Context;
use crate::value::{Evaluated, Val, no_such_overload, time};

#[derive(Debug)]
pub(crate) struct Format {
    pub name: &'static str,
    /// What the reference estimates its expression's length to be.
    pub regex_size: u64,
    check: fn(&str) -> Vec<String>,
}

static FORMATS: [(&str, Format, Plain); 13] = [
    entry("dns1123Label", 30, |text| label(text, false, false), |_, _| Ok(Val::Format(&FORMATS[0].1))),
    entry("dns1123Subdomain", 60, |text| subdomain(text, false), |_, _| Ok(Val::Format(&FORMATS[1].1))),
    entry("dns1035Label", 30, |text| label(text, true, false), |_, _| Ok(Val::Format(&FORMATS[2].1))),
    entry("qualifiedName", 60, qualified_name, |_, _| Ok(Val::Format(&FORMATS[3].1))),
    entry("dns1123LabelPrefix", 30, |text| label(text, false, true), |_, _| Ok(Val::Format(&FORMATS[4].1))),
    entry("dns1123SubdomainPrefix", 60, |text| subdomain(text, true), |_, _| Ok(Val::Format(&FORMATS[5].1))),
    entry("dns1035LabelPrefix", 30, |text| label(text, true, true), |_, _| Ok(Val::Format(&FORMATS[6].1))),
    entry("labelValue", 40, label_value, |_, _| Ok(Val::Format(&FORMATS[7].1))),
    entry("uri", 1103, |text| Url::parse(text).err().into_iter().collect(), |_, _| Ok(Val::Format(&FORMATS[8].1))),
    entry(
        "uuid",
        72,
        |text| unless(is_uuid(text), "does not match the UUID format"),
        |_, _| Ok(Val::Format(&FORMATS[9].1)),
    ),
    entry("byte", 84, |text| unless(is_base64(text), "invalid base64"), |_, _| Ok(Val::Format(&FORMATS[10].1))),
    entry("date", 72, |text| unless(is_date(text), "invalid date"), |_, _| Ok(Val::Format(&FORMATS[11].1))),
    entry("datetime", 72, |text| unless(is_datetime(text), "invalid datetime"), |_, _| Ok(Val::Format(&FORMATS[12].1))),
];

const fn entry(
    name: &'static str,
    regex_size: u64,
    check: fn(&str) -> Vec<String>,
    constant: Plain,
) -> (&'static str, Format, Plain) {
    (name, Format { name, regex_size, check }, constant)
}

/// The function `format.<name>()`.
pub(super) fn constant(function: &str) -> Option<Plain> {
    let name = function.strip_prefix("format.")?;
    FORMATS.iter().find(|(known, ..)| *known == name).map(|(_, _, constant)| *constant)
}

pub(super) fn named<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let Val::String(name) = &args[0] else { return no_such_overload() };
    let found = FORMATS.iter().find(|(known, ..)| **known == **name);
    Ok(found.map_or(Val::Optional(None), |(_, format, _)| Val::some(Val::Format(format))))
}

pub(super) fn validate<'a>(_: &mut Context<'a>, args: &[Val<'a>]) -> Evaluated<Val<'a>> {
    let (Val::Format(format), Val::String(text)) = (&args[0], &args[1]) else { return no_such_overload() };
    let complaints = (format.check)(text);
    Ok(match complaints.is_empty() {
        true => Val::Optional(None),
        false => Val::some(Val::list(complaints.into_iter().map(Val::from).collect())),
    })
}

fn unless(valid: bool, complaint: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![complaint.into()] }
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    unless(text.len() <= most, &format!("must be no more than {most} characters"))
}

/// A prefix may end in a dash: something will follow.
fn unprefixed(text: &str, prefix: bool) -> String {
    match text.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => format!("{rest}a"),
        _ => text.into(),
    }
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`, or beginning with a letter.
fn is_label(text: &str, letter_first: bool) -> bool {
    let bytes = text.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let first = |byte: &u8| if letter_first { byte.is_ascii_lowercase() } else { plain(byte) };
    bytes.first().is_some_and(first)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

fn label(text: &str, letter_first: bool, prefix: bool) -> Vec<String> {
    const ANY: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const LETTER: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let text = unprefixed(text, prefix);
    let mut complaints = too_long(&text, 63);
    complaints.extend(unless(is_label(&text, letter_first), if letter_first { LETTER } else { ANY }));
    complaints
}

fn subdomain(text: &str, prefix: bool) -> Vec<String> {
    const RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let text = unprefixed(text, prefix);
    let mut complaints = too_long(&text, 253);
    complaints.extend(unless(text.split('.').all(|part| is_label(part, false)), RULE));
    complaints
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn qualified_name(text: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut complaints = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".into());
            name
        }
        [prefix, name] => {
            complaints.extend(subdomain(prefix, false).into_iter().map(|why| format!("prefix part {why}")));
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    complaints.extend(unless(!name.is_empty(), "name part must be non-empty"));
    complaints.extend(too_long(name, 63).into_iter().map(|why| format!("name part {why}")));
    complaints.extend(unless(is_name(name), &format!("name part {RULE}")));
    complaints
}

fn label_value(text: &str) -> Vec<String> {
    const RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let mut complaints = too_long(text, 63);
    complaints.extend(unless(text.is_empty() || is_name(text), RULE));
    complaints
}

/// Thirty-two hexadecimal digits, with dashes after the eighth and every fourth until the twentieth, if it likes.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (place, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if place > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        if rest.len() < length || !rest[..length].iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    !text.contains(['\r', '\n']) && !text.is_empty() && crate::base64::decode(text).is_some()
}

fn is_date(text: &str) -> bool {
    time::parse_timestamp(&format!("{text}T00:00:00Z")).is_some()
}

fn is_datetime(text: &str) -> bool {
    time::parse_timestamp(&text.to_ascii_uppercase()).is_some()
}

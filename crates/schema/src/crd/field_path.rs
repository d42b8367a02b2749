//! Paths to fields as rules and selectable fields write them: `.spec.replicas`, `.spec['a.b']`.

use crate::structural::props::Props;

/// What a path leads to: its normal form, its first step, and the schema there (none beyond a map of anything).
pub(crate) struct Found<'a> {
    pub path: String,
    pub first: String,
    pub props: Option<Props<'a>>,
}

/// Follows `path` from `props`; the error says what is wrong with it.
pub(crate) fn follow<'a>(path: &str, props: Props<'a>, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found { path: String::new(), first: String::new(), props: Some(props) };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        let step = match token {
            "[" if !brackets => return Err("array notation is not allowed".into()),
            "[" => {
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                unescape(inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?)?
            }
            "." => tokens.next().ok_or("unexpected end of JSON path")?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        enter(&mut found, step)?;
        if token == "[" {
            match tokens.next() {
                None => return Err("unexpected end of JSON path".into()),
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok(found)
}

fn enter(found: &mut Found<'_>, step: String) -> Result<(), String> {
    const NOWHERE: &str = "does not refer to a valid field";
    let props = found.props.ok_or(NOWHERE)?;
    let is_first = found.path.is_empty();
    if props.named("properties").next().is_some() {
        found.props = Some(props.property(&step).ok_or(NOWHERE)?);
        if !is_first {
            found.path.push('.');
        }
        found.path.push_str(&step);
    } else if props.additional().is_some() {
        found.props = props.additional_schema();
        found.path.push_str(&format!("[{step}]"));
    } else {
        return Err(NOWHERE.into());
    }
    if is_first {
        found.first = step;
    }
    Ok(())
}

/// Dots and brackets are tokens, and whatever stands between them; a quoted text is one.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let end = match bytes.first()? {
            b'.' | b'[' | b']' => 1,
            b'\'' => (1..bytes.len())
                .find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\')
                .map_or(bytes.len(), |at| at + 1),
            _ => bytes.iter().position(|b| b".[]".contains(b)).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\'' | '\\')) => same,
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_declared_fields_only() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"a.b": {"type": "string"}, "list": {"type": "array"}}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        }});
        let props = Props::of(&schema).unwrap();
        let follow = |path: &str| follow(path, props, true).map(|found| found.path);
        assert_eq!(follow(".spec['a.b']"), Ok("spec.a.b".into()));
        assert_eq!(follow(".map.x"), Ok("map[x]".into()));
        assert_eq!(follow(".map['it\\'s']"), Ok("map[it's]".into()));
        let wrong = [
            (".nope", "does not refer to a valid field"),
            (".spec.list.x", "does not refer to a valid field"),
            (".map.x.y", "does not refer to a valid field"),
            ("spec", "expected [ or . but got: spec"),
            (".", "unexpected end of JSON path"),
            (".spec[", "unexpected end of JSON path"),
            (".spec[x]", "expected single quoted string but got x"),
            (".spec['a.b'", "unexpected end of JSON path"),
            (".spec['\\x']", "invalid string literal: invalid escape char \\x"),
        ];
        for (path, why) in wrong {
            assert_eq!(follow(path), Err(why.into()), "{path}");
        }
        let plain = super::follow(".spec['a.b']", props, false);
        assert_eq!(plain.map(|_| ()).unwrap_err(), "array notation is not allowed");
    }
}

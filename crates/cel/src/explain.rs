//! Values as text, in the manner of the reference's debug output: what conformance tests compare.

use crate::functions::show as plain;
use crate::value::Val;

pub(crate) fn show(value: &Val) -> String {
    match value {
        Val::Uint(value) => format!("{value}u"),
        Val::Double(value) if value.is_nan() => "double(\"NaN\")".into(),
        Val::Double(value) if value.is_infinite() => {
            format!("double(\"{}Infinity\")", if *value < 0.0 { "-" } else { "" })
        }
        Val::Double(value) if value.fract() == 0.0 => format!("{value:.1}"),
        Val::Double(value) => value.to_string(),
        Val::String(text) => format!("{:?}", &**text),
        Val::Bytes(bytes) => format!("b\"{}\"", bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>()),
        Val::Timestamp(time) => format!("timestamp(\"{time}\")"),
        Val::Duration(_) => format!("duration(\"{}\")", plain(value)),
        Val::Type(name) => (*name).into(),
        Val::List(list) => {
            let items: Vec<String> =
                list.iter().map(|item| item.map_or_else(|error| error.to_string(), |item| show(&item))).collect();
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let entry = |key: &Val| match map.find(key) {
                Ok(Some(value)) => format!("{}: {}", show(key), show(&value)),
                _ => show(key),
            };
            let entries: Vec<String> = map.keys().iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Val::Optional(None) => "optional.none()".into(),
        Val::Optional(Some(value)) => format!("optional.of({})", show(value)),
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(cidr) => cidr.to_string(),
        other => plain(other),
    }
}

//! The functions: what each does and what it costs. Signatures are in `check::signatures`.

mod convert;
mod format;
mod lists;
pub(crate) mod names;
pub(crate) mod net;
mod operators;
pub(crate) mod quantity;
pub(crate) mod semver;
mod strings;
mod times;
pub(crate) mod url;

use regex::Regex;

use crate::eval::{Context, Meter};
use crate::value::{Evaluated, Val, number, time};

pub(crate) use convert::to_duration;
pub(crate) use format::check as check_format;

pub(crate) type Plain = for<'a> fn(&mut Context<'a>, &[Val<'a>]) -> Evaluated<Val<'a>>;
pub(crate) type Matching = for<'a> fn(&mut Context<'a>, &[Val<'a>], &Regex) -> Evaluated<Val<'a>>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Plain(Plain),
    /// Takes a pattern as its second argument; what it says before it complains of a bad one.
    Matching(Matching, &'static str),
}

/// How the cost of a call follows from its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Charge {
    Nothing,
    One,
    /// A tenth per character of the first argument.
    Traverse,
    /// The same twice, for reading and writing.
    Rewrite,
    /// As `Traverse` for strings and bytes, else one.
    Convert,
    /// Each value within the first argument.
    Walk,
    Join,
    Matching,
    Search,
    Equality,
    Ordering,
    Addition,
    Membership,
    /// So often the product of the sizes.
    Product(u64),
    Containment {
        masked: bool,
    },
    Validation,
}

pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;

/// What is called under a name, and what it costs. Operators that the plan runs itself are not here.
pub(crate) fn lookup(name: &str) -> Option<(Function, Charge)> {
    let plain: (Plain, Charge) = match name {
        "_==_" => (operators::equals, Charge::Equality),
        "_!=_" => (operators::differs, Charge::Equality),
        "_<_" => (operators::less, Charge::Ordering),
        "_<=_" => (operators::less_or_equal, Charge::Ordering),
        "_>_" => (operators::greater, Charge::Ordering),
        "_>=_" => (operators::greater_or_equal, Charge::Ordering),
        "_+_" => (operators::add, Charge::Addition),
        "_-_" => (operators::subtract, Charge::One),
        "_*_" => (operators::multiply, Charge::One),
        "_/_" => (operators::divide, Charge::One),
        "_%_" => (operators::modulo, Charge::One),
        "-_" => (operators::negate, Charge::One),
        "!_" => (operators::not, Charge::One),
        "@in" => (operators::member_of, Charge::Membership),
        "size" => (operators::size, Charge::One),

        "type" => (convert::type_of, Charge::One),
        "dyn" => (convert::identity, Charge::One),
        "bool" => (convert::to_bool, Charge::One),
        "bytes" => (convert::to_bytes, Charge::Convert),
        "double" => (convert::to_double, Charge::One),
        "duration" => (convert::to_duration, Charge::One),
        "int" => (convert::to_int, Charge::One),
        "string" => (convert::to_string, Charge::Convert),
        "timestamp" => (convert::to_timestamp, Charge::One),
        "uint" => (convert::to_uint, Charge::One),

        "getFullYear" => (times::full_year, Charge::One),
        "getMonth" => (times::month, Charge::One),
        "getDayOfYear" => (times::day_of_year, Charge::One),
        "getDayOfMonth" => (times::day_of_month, Charge::One),
        "getDate" => (times::date, Charge::One),
        "getDayOfWeek" => (times::day_of_week, Charge::One),
        "getHours" => (times::hours, Charge::One),
        "getMinutes" => (times::minutes, Charge::One),
        "getSeconds" => (times::seconds, Charge::One),
        "getMilliseconds" => (times::milliseconds, Charge::One),

        "optional.of" => (lists::optional_of, Charge::One),
        "optional.ofNonZeroValue" => (lists::optional_of_non_zero, Charge::One),
        "optional.none" => (lists::optional_none, Charge::One),
        "value" => (lists::optional_value, Charge::One),
        "hasValue" => (lists::has_value, Charge::One),
        "first" => (lists::first, Charge::One),
        "last" => (lists::last, Charge::One),
        "optional.unwrap" | "unwrapOpt" => (lists::unwrap, Charge::One),
        "isSorted" => (lists::is_sorted, Charge::Walk),
        "sum" => (lists::sum, Charge::Walk),
        "min" => (lists::min, Charge::Walk),
        "max" => (lists::max, Charge::Walk),
        "indexOf" => (lists::index_of, Charge::Walk),
        "lastIndexOf" => (lists::last_index_of, Charge::Walk),
        "sets.contains" => (lists::set_contains, Charge::Product(1)),
        "sets.equivalent" => (lists::set_equivalent, Charge::Product(2)),
        "sets.intersects" => (lists::set_intersects, Charge::Product(1)),

        "contains" => (strings::contains, Charge::Search),
        "startsWith" => (strings::starts_with, Charge::Traverse),
        "endsWith" => (strings::ends_with, Charge::Traverse),
        "charAt" => (strings::char_at, Charge::One),
        "lowerAscii" => (strings::lower, Charge::Traverse),
        "upperAscii" => (strings::upper, Charge::Traverse),
        "trim" => (strings::trim, Charge::Traverse),
        "substring" => (strings::substring, Charge::Traverse),
        "replace" => (strings::replace, Charge::Rewrite),
        "split" => (strings::split, Charge::Rewrite),
        "join" => (strings::join, Charge::Join),
        "format" => (format::format, Charge::Traverse),
        "strings.quote" => (strings::quote, Charge::Traverse),

        "url" => (url::url, Charge::Traverse),
        "isURL" => (url::is_url, Charge::One),
        "getScheme" => (url::scheme_of, Charge::One),
        "getHost" => (url::host, Charge::One),
        "getHostname" => (url::hostname, Charge::One),
        "getPort" => (url::port, Charge::One),
        "getEscapedPath" => (url::escaped_path, Charge::One),
        "getQuery" => (url::query, Charge::One),

        "quantity" => (quantity::quantity, Charge::Traverse),
        "isQuantity" => (quantity::is_quantity, Charge::Traverse),
        "sign" => (quantity::sign, Charge::One),
        "isInteger" => (quantity::is_integer, Charge::One),
        "asInteger" => (quantity::as_integer, Charge::One),
        "asApproximateFloat" => (quantity::as_float, Charge::One),
        "add" => (quantity::add, Charge::One),
        "sub" => (quantity::subtract, Charge::One),
        "isGreaterThan" => (semver::is_greater, Charge::One),
        "isLessThan" => (semver::is_less, Charge::One),
        "compareTo" => (semver::compare_to, Charge::One),

        "ip" => (net::ip, Charge::Convert),
        "isIP" => (net::is_ip, Charge::Traverse),
        "ip.isCanonical" => (net::is_canonical, Charge::Rewrite),
        "family" => (net::family, Charge::One),
        "isUnspecified" => (net::is_unspecified, Charge::One),
        "isLoopback" => (net::is_loopback, Charge::One),
        "isLinkLocalMulticast" => (net::is_link_local_multicast, Charge::One),
        "isLinkLocalUnicast" => (net::is_link_local_unicast, Charge::One),
        "isGlobalUnicast" => (net::is_global_unicast, Charge::One),
        "cidr" => (net::cidr, Charge::Traverse),
        "isCIDR" => (net::is_cidr, Charge::Traverse),
        "containsIP" => (net::contains_ip, Charge::Containment { masked: false }),
        "containsCIDR" => (net::contains_cidr, Charge::Containment { masked: true }),
        "prefixLength" => (net::prefix_length, Charge::One),
        "masked" => (net::masked, Charge::One),

        "format.named" => (names::named, Charge::One),
        "validate" => (names::validate, Charge::Validation),
        "semver" => (semver::semver, Charge::Traverse),
        "isSemver" => (semver::is_semver, Charge::Traverse),
        "major" => (semver::major, Charge::One),
        "minor" => (semver::minor, Charge::One),
        "patch" => (semver::patch, Charge::One),

        "matches" => return Some((Function::Matching(strings::matches, ""), Charge::Matching)),
        "find" => return Some((Function::Matching(strings::find, "Illegal regex: "), Charge::Matching)),
        "findAll" => return Some((Function::Matching(strings::find_all, "Illegal regex: "), Charge::Matching)),
        _ => (names::constant(name)?, Charge::One),
    };
    Some((Function::Plain(plain.0), plain.1))
}

/// Conversions of constants are done when the expression is compiled.
pub(crate) fn is_conversion(name: &str) -> bool {
    matches!(name, "type" | "dyn" | "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint")
}

/// Whether a call that fits no overload is reported with its name and types; operators and some functions are not.
pub(crate) fn is_named(name: &str) -> bool {
    let plain = ["contains", "startsWith", "endsWith", "matches", "containsIP"];
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && !plain.contains(&name)
}

pub(crate) fn cost<'a>(charge: Charge, args: &[Val<'a>], context: &mut Context<'a>) -> Evaluated<u64> {
    let meter = &mut context.meter;
    let mut size = |index: usize| args.get(index).map_or(Ok(0), |value| measure(value, meter));
    Ok(match charge {
        Charge::Nothing => 0,
        Charge::One => 1,
        Charge::Traverse => tenths(size(0)?),
        Charge::Rewrite => tenths(2 * size(0)?),
        Charge::Convert => match &args[0] {
            Val::String(_) | Val::Bytes(_) => tenths(size(0)?),
            _ => 1,
        },
        Charge::Walk => walk(&args[0], meter)?,
        Charge::Join => tenths(2 * strings::joined_size(args, meter)?),
        Charge::Matching => tenths(size(0)? + 1).saturating_mul(size(1)?.div_ceil(4)),
        Charge::Search => tenths(size(0)?).saturating_mul(tenths(size(1)?)),
        Charge::Equality => match &args[0] {
            Val::Ip(_) | Val::Cidr(_) => 1,
            _ => tenths(size(0)?.min(size(1)?)),
        },
        Charge::Ordering => match &args[0] {
            Val::String(_) | Val::Bytes(_) => tenths(size(0)?.min(size(1)?)),
            _ => 1,
        },
        Charge::Addition => match &args[0] {
            Val::String(_) | Val::Bytes(_) => tenths(size(0)? + size(1)?),
            _ => 1,
        },
        Charge::Membership => match &args[1] {
            Val::List(list) => list.len() as u64,
            _ => 1,
        },
        Charge::Product(factor) => 1 + (size(0)?.saturating_mul(size(1)?)).saturating_mul(factor),
        Charge::Containment { masked } => {
            let network = size(0)?;
            let mask = if masked { tenths(network) + 1 } else { 0 };
            let parse = if matches!(args.get(1), Some(Val::String(_))) { tenths(size(1)?) } else { 0 };
            tenths(2 * network) + mask + parse
        }
        Charge::Validation => match args {
            [Val::Format(format), _] => tenths(size(1)? + 1) * format.regex_size.div_ceil(4),
            _ => 1,
        },
    })
}

/// A tenth of a unit per character, rounded up.
fn tenths(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The size of a value; counting characters is work, too.
fn measure(value: &Val, meter: &mut Meter) -> Evaluated<u64> {
    if let Val::String(text) = value {
        meter.step(text.len() / 64)?;
    }
    Ok(value.size())
}

/// What it costs to see everything within a value.
fn walk(value: &Val, meter: &mut Meter) -> Evaluated<u64> {
    meter.step(1)?;
    Ok(match value {
        Val::String(text) => text.len() as u64 / 10,
        Val::Bytes(bytes) => bytes.len() as u64 / 10,
        Val::List(list) => {
            let mut cost = 0;
            for item in list.iter() {
                cost += walk(&item?, meter)?;
            }
            cost
        }
        Val::Map(map) => {
            let mut cost = 0;
            for key in map.keys() {
                cost += walk(&key, meter)?;
                if let Some(value) = map.find(&key)? {
                    cost += walk(&value, meter)?;
                }
            }
            cost
        }
        _ => 1,
    })
}

/// A value in an error message.
pub(crate) fn show(value: &Val) -> String {
    match value {
        Val::Null => "null".into(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => number::format_double(*value),
        Val::String(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => time::format_duration(*nanos),
        other => other.type_name().into(),
    }
}

//! Every function and operator a rule may call, as one table of signatures.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::types::{self, Type};

/// One way to call a function. Its type parameters are variables 0 and 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Overload {
    /// Whether the first parameter stands before the dot.
    pub member: bool,
    pub params: Vec<Type>,
    pub result: Type,
}

pub(crate) fn overloads(function: &str) -> Option<&'static [Overload]> {
    static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(read);
    TABLE.get(function).map(Vec::as_slice)
}

/// Names, a colon, then `params -> result` for each overload; what stands before a dot is the receiver.
/// `A` and `B` are type parameters, `[A]` a list, `{A:B}` a map, `?A` an optional.
const TABLE: &str = "
_?_:_: (bool, A, A) -> A
_&&_ _||_: (bool, bool) -> bool
!_ @not_strictly_false: (bool) -> bool
_==_ _!=_: (A, A) -> bool
_+_: (bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration; (duration, timestamp) -> timestamp; (timestamp, duration) -> timestamp; (int, int) -> int; ([A], [A]) -> [A]; (string, string) -> string; (uint, uint) -> uint
_-_: (double, double) -> double; (duration, duration) -> duration; (int, int) -> int; (timestamp, duration) -> timestamp; (timestamp, timestamp) -> duration; (uint, uint) -> uint
_*_ _/_: (double, double) -> double; (int, int) -> int; (uint, uint) -> uint
_%_: (int, int) -> int; (uint, uint) -> uint
-_: (double) -> double; (int) -> int
_<_ _<=_ _>_ _>=_: (bool, bool) -> bool; (int, int) -> bool; (int, double) -> bool; (int, uint) -> bool; (uint, uint) -> bool; (uint, double) -> bool; (uint, int) -> bool; (double, double) -> bool; (double, int) -> bool; (double, uint) -> bool; (string, string) -> bool; (bytes, bytes) -> bool; (timestamp, timestamp) -> bool; (duration, duration) -> bool
_[_]: ([A], int) -> A; ({A:B}, A) -> B; (?[A], int) -> ?A; (?{A:B}, A) -> ?B
_[?_]: ([A], int) -> ?A; (?[A], int) -> ?A; ({A:B}, A) -> ?B; (?{A:B}, A) -> ?B
@in: (A, [A]) -> bool; (A, {A:B}) -> bool
size: (bytes) -> int; bytes.() -> int; ([A]) -> int; [A].() -> int; ({A:B}) -> int; {A:B}.() -> int; (string) -> int; string.() -> int
type: (A) -> type<A>
dyn: (A) -> dyn
bool: (bool) -> bool; (string) -> bool
bytes: (bytes) -> bytes; (string) -> bytes
double: (double) -> double; (int) -> double; (string) -> double; (uint) -> double
duration: (duration) -> duration; (int) -> duration; (string) -> duration
int: (int) -> int; (double) -> int; (duration) -> int; (string) -> int; (timestamp) -> int; (uint) -> int
string: (string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; (duration) -> string; (int) -> string; (timestamp) -> string; (uint) -> string; (ip) -> string; (cidr) -> string
timestamp: (timestamp) -> timestamp; (int) -> timestamp; (string) -> timestamp
uint: (uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint
contains endsWith startsWith: string.(string) -> bool
matches: (string, string) -> bool; string.(string) -> bool
getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek: timestamp.() -> int; timestamp.(string) -> int
getHours getMinutes getSeconds getMilliseconds: timestamp.() -> int; timestamp.(string) -> int; duration.() -> int
cel.@mapInsert: ({A:B}, A, B) -> {A:B}; ({A:B}, {A:B}) -> {A:B}

optional.of optional.ofNonZeroValue: (A) -> ?A
optional.none: () -> ?A
value: ?A.() -> A
hasValue: ?A.() -> bool
or: ?A.(?A) -> ?A
orValue: ?A.(A) -> A
first last: [A].() -> ?A
optional.unwrap: ([?A]) -> [A]
unwrapOpt: [?A].() -> [A]

charAt: string.(int) -> string
indexOf lastIndexOf: [A].(A) -> int; string.(string) -> int; string.(string, int) -> int
lowerAscii upperAscii trim: string.() -> string
replace: string.(string, string) -> string; string.(string, string, int) -> string
split: string.(string) -> [string]; string.(string, int) -> [string]
substring: string.(int) -> string; string.(int, int) -> string
join: [string].() -> string; [string].(string) -> string
format: string.([dyn]) -> string
strings.quote: (string) -> string
sets.contains sets.equivalent sets.intersects: ([A], [A]) -> bool

isSorted: [int].() -> bool; [uint].() -> bool; [double].() -> bool; [bool].() -> bool; [duration].() -> bool; [timestamp].() -> bool; [string].() -> bool; [bytes].() -> bool
sum: [int].() -> int; [uint].() -> uint; [double].() -> double; [duration].() -> duration
min max: [int].() -> int; [uint].() -> uint; [double].() -> double; [bool].() -> bool; [duration].() -> duration; [timestamp].() -> timestamp; [string].() -> string; [bytes].() -> bytes
find: string.(string) -> string
findAll: string.(string) -> [string]; string.(string, int) -> [string]
url: (string) -> url
isURL: (string) -> bool
getScheme getHost getHostname getPort getEscapedPath: url.() -> string
getQuery: url.() -> {string:[string]}
quantity: (string) -> quantity
isQuantity: (string) -> bool
sign: (quantity) -> int
isInteger: quantity.() -> bool
asInteger: quantity.() -> int
asApproximateFloat: quantity.() -> double
add sub: quantity.(quantity) -> quantity; quantity.(int) -> quantity
isGreaterThan isLessThan: quantity.(quantity) -> bool; semver.(semver) -> bool
compareTo: quantity.(quantity) -> int; semver.(semver) -> int
ip: (string) -> ip; cidr.() -> ip
isIP ip.isCanonical isCIDR: (string) -> bool
family: ip.() -> int
isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast: ip.() -> bool
cidr: (string) -> cidr
containsIP: cidr.(string) -> bool; cidr.(ip) -> bool
containsCIDR: cidr.(string) -> bool; cidr.(cidr) -> bool
prefixLength: cidr.() -> int
masked: cidr.() -> cidr
format.dns1123Label format.dns1123Subdomain format.dns1035Label format.qualifiedName format.dns1123LabelPrefix format.dns1123SubdomainPrefix format.dns1035LabelPrefix format.labelValue format.uri format.uuid format.byte format.date format.datetime: () -> format
format.named: (string) -> ?format
validate: format.(string) -> ?[string]
semver: (string) -> semver; (string, bool) -> semver
isSemver: (string) -> bool; (string, bool) -> bool
major minor patch: semver.() -> int
";

fn read() -> HashMap<&'static str, Vec<Overload>> {
    let mut table = HashMap::new();
    for line in TABLE.lines().filter(|line| !line.is_empty()) {
        // Names may hold colons themselves (`_?_:_`), but none followed by a blank.
        let (names, overloads) = line.split_once(": ").unwrap_or((line, ""));
        for name in names.split(' ') {
            table.insert(name, overloads.split("; ").map(overload).collect());
        }
    }
    table
}

fn overload(text: &'static str) -> Overload {
    let (head, result) = text.split_once(" -> ").unwrap_or((text, "dyn"));
    let (receiver, params) = head.split_once('(').unwrap_or((head, ""));
    let receiver = receiver.strip_suffix('.');
    let params = params.trim_end_matches(')').split(", ").filter(|param| !param.is_empty());
    Overload {
        member: receiver.is_some(),
        params: receiver.into_iter().chain(params).map(read_type).collect(),
        result: read_type(result),
    }
}

fn read_type(text: &str) -> Type {
    let inner = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(of) = text.strip_prefix('?') {
        return Type::optional(read_type(of));
    }
    if let Some(element) = inner('[', ']') {
        return Type::list(read_type(element));
    }
    if let Some((key, value)) = inner('{', '}').and_then(|entry| entry.split_once(':')) {
        return Type::map(read_type(key), read_type(value));
    }
    match text {
        "A" => Type::Variable(0),
        "B" => Type::Variable(1),
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "type<A>" => Type::Meta(Some(Arc::new(Type::Variable(0)))),
        "url" => Type::Named(types::URL),
        "quantity" => Type::Named(types::QUANTITY),
        "format" => Type::Named(types::FORMAT),
        "semver" => Type::Named(types::SEMVER),
        "ip" => Type::Named(types::IP),
        "cidr" => Type::Named(types::CIDR),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_as_written() {
        let conditional = &overloads("_?_:_").unwrap()[0];
        assert_eq!(conditional.params, [Type::Bool, Type::Variable(0), Type::Variable(0)]);
        let query = &overloads("getQuery").unwrap()[0];
        assert!(query.member);
        assert_eq!(query.result, Type::map(Type::String, Type::list(Type::String)));
        assert_eq!(overloads("optional.none").unwrap()[0].params, []);
        assert_eq!(overloads("_[?_]").unwrap()[3].params[0].to_string(), "optional_type(map(_var0, _var1))");
        assert!(overloads("nothing").is_none());
    }

    #[test]
    fn every_word_of_the_table_is_a_type() {
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            let (_, overloads) = line.split_once(": ").unwrap();
            for text in overloads.split("; ") {
                let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
                for word in words.filter(|word| !matches!(*word, "dyn" | "type")) {
                    assert_ne!(read_type(word), Type::Dyn, "{word} in {line}");
                }
            }
        }
    }
}

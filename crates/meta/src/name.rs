//! Names: what may be called how, in the words Kubernetes uses when it refuses. Hand-written checks, no regular expressions.
//!
//! Each function returns the complaints about a value; none means the value is fine.

const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Tells whether a value may name an object of some kind.
pub type Rule = fn(&str) -> Vec<String>;

/// Names of most kinds: dot-separated lower-case labels, at most 253 bytes.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !is_dns1123_subdomain(value) {
        errors.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
            &["example.com"],
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        ));
    }
    errors
}

/// Names of namespaces and of everything that becomes one DNS label.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !is_dns1123_label(value) {
        errors.push(if is_dns1123_subdomain(value) {
            "must not contain dots".into()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                 and must start and end with an alphanumeric character",
                &["my-name", "123-abc"],
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            )
        });
    }
    errors
}

/// Names of Services: a DNS label that begins with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !(is_dns1123_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        errors.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character",
            &["my-name", "abc-123"],
            "[a-z]([-a-z0-9]*[a-z0-9])?",
        ));
    }
    errors
}

/// Keys of labels and annotations, finalizers, condition types: `[prefix/]name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mismatch = || {
        mismatch(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &["MyName", "my.name", "123-abc"],
            "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
        )
    };
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let rule = mismatch();
            return vec![format!(
                "a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                errors.extend(dns1123_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part must be no more than {LABEL_MAX} characters"));
    }
    if !is_qualified_word(name) {
        errors.push(format!("name part {}", mismatch()));
    }
    errors
}

/// Values of labels: empty, or a word of at most 63 bytes.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !(value.is_empty() || is_qualified_word(value)) {
        errors.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
        ));
    }
    errors
}

/// Names that only have to be one segment of a URL path (RBAC objects, custom kinds of other servers).
pub fn path_segment(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

/// As `path_segment`, for a `generateName`: a suffix follows, so "." alone is no danger.
pub fn path_segment_prefix(value: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|part| value.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Keys of the data of ConfigMaps and Secrets: they become file names.
pub fn config_key(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        errors.push(mismatch(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    errors.extend(parent_folder(value));
    errors
}

/// Names of environment variables.
pub fn env_var(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if value.is_empty() || value.starts_with(|c: char| c.is_ascii_digit()) || !value.bytes().all(fits) {
        errors.push(mismatch(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
             and must not start with a digit",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
        ));
    }
    errors.extend(parent_folder(value));
    errors
}

fn parent_folder(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

/// A `generateName` with this suffix is a valid name if it stays within the limit of its rule.
pub const SUFFIX_LENGTH: usize = 5;

/// No vowels and nothing easily mistaken: generated names spell no words.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A name generated from `base`: cut to `max` bytes less the suffix, then five characters drawn from `random`.
pub fn generated(base: &str, max: usize, random: u64) -> String {
    let mut keep = base.len().min(max.saturating_sub(SUFFIX_LENGTH));
    while !base.is_char_boundary(keep) {
        keep -= 1;
    }
    let mut name = String::with_capacity(keep + SUFFIX_LENGTH);
    name.push_str(&base[..keep]);
    name.push_str(&suffix(random));
    name
}

/// Five characters of the suffix alphabet; 27⁵ divides 2⁶⁴ so nearly evenly that the bias is below 10⁻¹².
pub fn suffix(random: u64) -> String {
    let mut rest = random;
    (0..SUFFIX_LENGTH)
        .map(|_| {
            let digit = (rest % SUFFIX_ALPHABET.len() as u64) as usize;
            rest /= SUFFIX_ALPHABET.len() as u64;
            char::from(SUFFIX_ALPHABET[digit])
        })
        .collect()
}

/// The two blanks before "or" are Kubernetes' own; clients compare whole messages.
fn mismatch(rule: &str, examples: &[&str], pattern: &str) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn is_dns1123_label(value: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = value.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_qualified_word(value: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_alphanumeric();
    let bytes = value.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|b| edge(b) || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(rule: Rule, good: &[&str], bad: &[&str]) {
        for value in good {
            assert_eq!(rule(value), Vec::<String>::new(), "{value:?}");
        }
        for value in bad {
            assert!(!rule(value).is_empty(), "{value:?}");
        }
    }

    // B-4
    #[test]
    fn b4_names_are_told_apart_from_traps() {
        let long = ["a".repeat(63), "a".repeat(64), "a".repeat(253), "a".repeat(254)];
        let hostile =
            ["", "../x", "a%2f..", "NUL\0", "a b", "а" /* Cyrillic */, "a\n", "-a", "a-", ".", "..", "a..b", ".a"];
        check(dns1123_subdomain, &["a", "0", "a-b", "a.b-c.d", "1.2", &long[0], &long[2]], &hostile);
        check(dns1123_subdomain, &[], &["A", "a_b", "a.-b", &long[3]]);
        check(dns1123_label, &["a", "a--b", "0a", &long[0]], &hostile);
        check(dns1123_label, &[], &["a.b", &long[1]]);
        check(dns1035_label, &["a", "a-0"], &hostile);
        check(dns1035_label, &[], &["0a", "A", &long[1]]);
        check(path_segment, &["system:x", "A b", "..."], &[".", "..", "a/b", "a%2f"]);
        check(
            config_key,
            &["a", "A_b.c-d", ".dockercfg", "-", &long[2]],
            &["", ".", "..", "..a", "a/b", "é", &long[3]],
        );
        check(env_var, &["A", "_a.b-c"], &["", "1a", "a=b", "..", "..a"]);
        check(label_value, &["", "a", "A_b-c.d", &long[0]], &["-a", "a-", "a b", "é", &long[1]]);
        check(
            qualified_name,
            &["a", "example.com/My_Name", "a/b", "A.b"],
            &["", "/a", "a/", "a/b/c", "A/b", "-a", "é", &long[1]],
        );
    }

    #[test]
    fn complaints_are_in_kubernetes_words() {
        assert_eq!(
            dns1123_subdomain("A"),
            [
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
              end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert!(dns1123_label("A")[0].contains("(e.g. 'my-name',  or '123-abc', regex"));
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(path_segment("a/%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("")[0], "name part must be non-empty");
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
    }

    #[test]
    fn generated_names_fit_and_use_the_alphabet() {
        assert_eq!(suffix(0), "bbbbb");
        assert_eq!(generated("web-", 63, 1), "web-cbbbb");
        assert_eq!(generated(&"é".repeat(100), 63, 1).len(), 58 + 5);
        assert_eq!(generated(&"x".repeat(300), 253, 7).len(), 253);
    }

    proptest! {
        #[test]
        fn no_rule_panics_and_accepted_names_are_harmless(value in ".{0,80}", random: u64) {
            let rules: [Rule; 8] = [dns1123_subdomain, dns1123_label, dns1035_label, qualified_name, label_value, path_segment,
                                    config_key, env_var];
            for rule in rules { rule(&value); }
            for rule in [dns1123_subdomain, dns1123_label, dns1035_label, config_key] {
                if rule(&value).is_empty() {
                    prop_assert!(value.is_ascii() && !value.contains(['/', '%', '\0']) && value != ".." && !value.is_empty());
                }
            }
            prop_assert!(dns1123_label(&suffix(random)).is_empty());
        }

        #[test]
        fn a_generated_name_is_valid_when_its_base_is(base in "[a-z]([-a-z0-9]{0,60}[a-z0-9])?", random: u64) {
            prop_assert!(dns1123_label(&generated(&base, 63, random)).is_empty());
        }
    }
}

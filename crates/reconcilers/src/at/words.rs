//! A command line as words: the quoting of a shell, without a shell.
//!
//! Nothing is expanded: no variables, no globs, no pipes. Whoever wants those writes `sh -c '…'`.

/// Splits at blanks. `'…'` takes everything as it is; within `"…"` a backslash saves `"`, `\`, `$` and `` ` ``; elsewhere it saves
/// any character.
pub fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '\0' => return Err(format!("there is a NUL at byte {at}")),
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some((_, '\'')) => break,
                        Some((at, '\0')) => return Err(format!("there is a NUL at byte {at}")),
                        Some((_, c)) => word.push(c),
                        None => return Err(format!("the ' at byte {at} is not closed")),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some((_, '"')) => break,
                        Some((_, '\\')) => match rest.next() {
                            Some((_, saved @ ('"' | '\\' | '$' | '`'))) => word.push(saved),
                            Some((_, '\n')) => {}
                            Some((_, other)) => word.extend(['\\', other]),
                            None => return Err(format!("the \" at byte {at} is not closed")),
                        },
                        Some((at, '\0')) => return Err(format!("there is a NUL at byte {at}")),
                        Some((_, c)) => word.push(c),
                        None => return Err(format!("the \" at byte {at} is not closed")),
                    }
                }
            }
            '\\' => match rest.next() {
                Some((_, '\n')) => {}
                Some((_, saved)) => word.get_or_insert_default().push(saved),
                None => return Err("it ends in a backslash".to_owned()),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match words.first().map(String::as_str) {
        None => Err("it is empty".to_owned()),
        Some("") => Err("the program's name is empty".to_owned()),
        Some(_) => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_are_those_of_a_shell() {
        // KC-7
        for (command, wanted) in [
            ("echo YAY", vec!["echo", "YAY"]),
            ("  a\t b\n", vec!["a", "b"]),
            (r#"a "b c" 'd "e' f\ g"#, vec!["a", "b c", "d \"e", "f g"]),
            (r#"a "\"\\\$\x" '\n' """#, vec!["a", r#""\$\x"#, r"\n", ""]),
            ("sh -c 'echo $HOME | wc'", vec!["sh", "-c", "echo $HOME | wc"]),
            ("a$(b);c>d", vec!["a$(b);c>d"]),
            ("a\\\nb 'c'\"d\"e", vec!["ab", "cde"]),
        ] {
            assert_eq!(words(command).unwrap(), wanted, "{command}");
        }
    }

    #[test]
    fn what_is_not_a_command_says_why() {
        // KC-7
        for (command, why) in [
            ("", "empty"),
            ("   ", "empty"),
            ("''", "name"),
            ("a 'b", "byte 2"),
            ("a \"b\\", "byte 2"),
            ("a\\", "backslash"),
            ("a\0", "NUL"),
        ] {
            assert!(words(command).unwrap_err().contains(why), "{command:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_words_come_back_as_they_were(given in prop::collection::vec("[^\0]{0,12}", 1..5)) {
            // KC-7
            prop_assume!(!given[0].is_empty());
            let quoted: Vec<String> = given.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            prop_assert_eq!(words(&quoted.join(" ")).unwrap(), given);
        }

        #[test]
        fn no_text_is_a_panic(text in any::<String>()) {
            // KC-7
            let _ = words(&text);
        }
    }
}

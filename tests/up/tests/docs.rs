//! The examples of docs/cli.md, typed in order on a demo.
#![allow(clippy::unwrap_used, clippy::expect_used, unused_crate_dependencies)]

use muster_tests_up::{Up, until};

const PAGE: &str = include_str!("../../../docs/cli.md");

#[test]
fn every_example_of_the_page_works_on_the_demo() {
    let up = Up::start(&["--demo"]);
    up.until_running(3);
    until("the pods run", || up.rows("pods").iter().filter(|row| row["phase"] == "Running").count() >= 45);
    let mut examples = 0;
    for line in PAGE.lines().filter_map(|line| line.trim_start().strip_prefix("$ muster ")) {
        // What stands behind two spaces and a # is for the reader.
        let line = line.split("  #").next().unwrap().trim_end();
        let words: Vec<String> = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, out, err) = up.command(&words);
        assert_eq!(code, 0, "muster {line}\n{out}{err}");
        examples += 1;
    }
    assert!(examples >= 12, "{examples}");
}

/// Words as a shell splits them, with single and double quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

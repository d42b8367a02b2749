//! "Did you mean": the known word that differs least from a misspelt one.

/// The nearest of `known`, if it is near enough to be meant: a third of the letters may differ, case and dashes count little.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '-' | '_' | '.')).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(word);
    let scored = known.into_iter().map(|candidate| (distance(&wanted, &plain(candidate)), candidate));
    scored
        .min_by_key(|(score, _)| *score)
        .filter(|(score, _)| *score <= (wanted.len() / 3).max(1))
        .map(|(_, best)| best)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: [Vec<usize>; 3] = [vec![0; b.len() + 1], (0..=b.len()).collect(), vec![0; b.len() + 1]];
    for (i, x) in a.iter().enumerate() {
        let [before, above, row] = &mut rows;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            row[j + 1] = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_far_ones_are_not() {
        let known = ["metricsBindAddress", "healthBindAddress", "concurrency", "controllers", "api"];
        for (word, meant) in [
            ("metricsBindAdress", Some("metricsBindAddress")),
            ("metrics-bind-address", Some("metricsBindAddress")),
            ("helthBindAddress", Some("healthBindAddress")),
            ("concurency", Some("concurrency")),
            ("Controlers", Some("controllers")),
            ("aip", Some("api")),
            ("something", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest("x", []), None);
    }
}

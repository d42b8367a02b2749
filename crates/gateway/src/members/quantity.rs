//! Quantities of Kubernetes (`250m`, `64Gi`, `1e3`) as numbers: good enough to add up, never an error.

/// The number a quantity stands for; zero for what is none.
pub(super) fn parse(text: &str) -> f64 {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || matches!(c, '.') || (*at == 0 && matches!(c, '+' | '-'))))
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(end);
    let Ok(number) = number.parse::<f64>() else { return 0.0 };
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024f64,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        exponent => match exponent.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<i32>().ok()) {
            Some(power) => 10f64.powi(power),
            None => return 0.0,
        },
    };
    let value = number * factor;
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_numbers_and_nonsense_is_nothing() {
        for (text, value) in [
            ("250m", 0.25),
            ("2", 2.0),
            ("1.5", 1.5),
            ("64Gi", 64.0 * 1024.0 * 1024.0 * 1024.0),
            ("100M", 1e8),
            ("1e3", 1e3),
            ("1E", 1e18),
            ("-1", -1.0),
            ("", 0.0),
            ("x", 0.0),
            ("1Zi", 0.0),
            ("1e999", 0.0),
            ("9e9999999999", 0.0),
            ("é", 0.0),
        ] {
            assert!((parse(text) - value).abs() <= value.abs() * 1e-9, "{text}: {}", parse(text));
        }
    }
}

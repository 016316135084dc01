//! The sizes of a sweep, as they are typed: `8:2096:8`, `64,128,1000`, `2^4:2^13`, or a mixture.

/// Most sizes of one sweep.
const MOST: usize = 100_000;

/// Square sizes, ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeList(Vec<usize>);

impl SizeList {
    /// The sizes.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}

impl std::str::FromStr for SizeList {
    type Err = String;

    /// Reads items between commas. `A:B:S` counts from A to B by S, `A:B` by 1, `b^I:b^J` by powers
    /// of b; both ends belong to a range.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Vec::new();
        for item in text.split(',') {
            let item = item.trim();
            let parts: Vec<&str> = item.split(':').collect();
            match *parts.as_slice() {
                [one] => sizes.push(Value::read(one, item)?.size),
                [from, to] => {
                    let (from, to) = (Value::read(from, item)?, Value::read(to, item)?);
                    range(&mut sizes, item, from, to, 1)?;
                }
                [from, to, step] => {
                    let (from, to) = (Value::read(from, item)?, Value::read(to, item)?);
                    if from.power.is_some() || to.power.is_some() {
                        return Err(format!("`{item}`: a range of powers has no step"));
                    }
                    let step = step.parse().map_err(|_| not_a_size(step, item))?;
                    if step == 0 {
                        return Err(format!("`{item}`: a step of 0 never ends; steps start at 1"));
                    }
                    range(&mut sizes, item, from, to, step)?;
                }
                _ => return Err(format!("`{item}` is no FROM:TO:STEP")),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

/// A size, and how it was written where it is a power.
#[derive(Clone, Copy)]
struct Value {
    size: usize,
    /// Base and exponent.
    power: Option<(usize, u32)>,
}

impl Value {
    fn read(text: &str, item: &str) -> Result<Self, String> {
        let refused = || not_a_size(text, item);
        let (size, power) = match text.split_once('^') {
            None => (text.parse().map_err(|_| refused())?, None),
            Some((base, exponent)) => {
                let base: usize = base.parse().map_err(|_| refused())?;
                let exponent: u32 = exponent.parse().map_err(|_| refused())?;
                let size = base
                    .checked_pow(exponent)
                    .ok_or_else(|| format!("`{text}` passes {}", usize::MAX))?;
                (size, Some((base, exponent)))
            }
        };
        if size == 0 {
            return Err(format!("`{item}`: sizes start at 1"));
        }
        Ok(Self { size, power })
    }
}

fn not_a_size(text: &str, item: &str) -> String {
    if text.is_empty() {
        return format!("`{item}` lacks a size; write 64, 8:2096:8 or 2^4:2^13");
    }
    format!("`{text}` is no size; write 64, 8:2096:8 or 2^4:2^13")
}

fn range(
    sizes: &mut Vec<usize>,
    item: &str,
    from: Value,
    to: Value,
    step: usize,
) -> Result<(), String> {
    if from.size > to.size {
        return Err(format!("`{item}` is empty: it ends before it begins"));
    }
    match (from.power, to.power) {
        (Some((base, first)), Some((other, last))) if base == other && base > 1 => {
            // The last power was computed, so those below it fit.
            sizes.extend((first..=last).map(|exponent| base.pow(exponent)));
        }
        (None, None) => {
            let count = (to.size - from.size) / step;
            if count >= MOST {
                return Err(format!("`{item}` are more than {MOST} sizes; take a larger step"));
            }
            sizes.extend((from.size..=to.size).step_by(step));
        }
        _ => {
            return Err(format!(
                "`{item}`: both ends of a range are powers of one base, or none is"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<usize> {
        text.parse::<SizeList>().unwrap().0
    }

    #[test]
    fn every_form_is_read_and_mixed() {
        assert_eq!(sizes("64,128,1000"), [64, 128, 1000]);
        assert_eq!(sizes("2^4:2^7"), [16, 32, 64, 128]);
        assert_eq!(sizes("5:8"), [5, 6, 7, 8]);
        assert_eq!(sizes("3:10:3"), [3, 6, 9]);
        assert_eq!(sizes("100, 8:24:8,2^4:2^5,3^2"), [8, 9, 16, 24, 32, 100]);
        assert_eq!(sizes("7:7"), [7]);
    }

    #[test]
    fn the_chart_of_hello_world_has_its_262_sizes() {
        let all = sizes("8:2096:8");
        assert_eq!((all.len(), all.first(), all.last()), (262, Some(&8), Some(&2096)));
        let multiples = |tile| all.iter().filter(|&&n| n % tile == 0).count();
        assert_eq!((multiples(32), multiples(16)), (65, 131));
    }

    #[test]
    fn what_cannot_be_meant_is_said_in_one_line() {
        for (text, words) in [
            ("", "lacks a size"),
            ("8,", "lacks a size"),
            ("8:", "lacks a size"),
            ("9:8", "`9:8` is empty"),
            ("2^5:2^4", "is empty"),
            ("8:16:0", "step of 0"),
            ("8:16:x", "`x` is no size"),
            ("8:16:4:2", "FROM:TO:STEP"),
            ("0", "sizes start at 1"),
            ("0:8:2", "sizes start at 1"),
            ("-3", "`-3` is no size"),
            ("1.5", "`1.5` is no size"),
            ("2^64", "passes"),
            ("2^4:3^4", "one base"),
            ("2^4:64", "one base"),
            ("1^1:1^5", "one base"),
            ("2^4:2^8:2", "no step"),
            ("1:18446744073709551615", "more than 100000"),
            ("99999999999999999999", "is no size"),
        ] {
            let refusal = text.parse::<SizeList>().unwrap_err();
            assert!(refusal.contains(words) && !refusal.contains('\n'), "{text}: {refusal}");
        }
    }
}

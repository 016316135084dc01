//! The sum that one instruction of the tensor cores makes for an element of C, bit for bit.
//!
//! The sixteen products of 16-bit factors and the old sum are added at once: the largest exponent among them
//! is found, each term is cut toward zero 25 bits below it, the integers that remain are added exactly, and
//! their sum is cut toward zero to an f32. The exponent of a product is the sum of its factors' exponents, not
//! that of its value; subnormal numbers have the least exponent of their type, and zeros have none. What is cut
//! to nothing is +0.
//!
//! Source: MMA-Sim (arXiv 2511.10909), and Khattak and Mikaitis (arXiv 2512.07004); the H200's recorded digests
//! of every kernel that multiplies on the tensor cores hold it to these bits.

/// Products that one instruction adds to an element.
pub(super) const DEPTH: usize = 16;
/// Bits below the largest exponent that a term keeps.
const KEPT: i32 = 25;
/// The least exponent that counts as the largest: of smaller terms a sum keeps no more.
const LEAST_EXPONENT: i32 = -133;
/// Columns whose sums are made together.
const LANES: usize = 16;
/// The exponent field of an f32.
const EXPONENT: u32 = 0x7f80_0000;
/// What a sum without a value is.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// The type of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    F16,
    Bf16,
}

impl Factor {
    /// The value of a factor: every one is an f32.
    #[inline(always)]
    pub(super) fn value(self, bits: u16) -> f32 {
        match self {
            // The exponent's bias moves from 15 to 127; subnormal numbers become normal ones.
            Self::F16 if bits & 0x7c00 != 0x7c00 => {
                let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13);
                let value = magnitude * f32::from_bits((127 + 112) << 23);
                f32::from_bits(value.to_bits() | u32::from(bits & 0x8000) << 16)
            }
            Self::F16 => {
                let sign = u32::from(bits & 0x8000) << 16;
                f32::from_bits(sign | EXPONENT | u32::from(bits & 0x3ff) << 13)
            }
            Self::Bf16 => f32::from_bits(u32::from(bits) << 16),
        }
    }

    /// The least exponent of the type, as a power of two.
    fn least_power(self) -> f32 {
        match self {
            Self::F16 => f32::from_bits((127 - 14) << 23),
            Self::Bf16 => f32::MIN_POSITIVE,
        }
    }

    /// Two to the exponent of a factor; zero where the factor is.
    #[inline(always)]
    fn power(self, value: f32) -> f32 {
        let power = f32::from_bits(value.to_bits() & EXPONENT);
        if value == 0.0 { 0.0 } else { power.max(self.least_power()) }
    }
}

/// Factors of an instruction: for each of `DEPTH` steps a line of values, and of their powers.
pub(super) struct Factors {
    lines: usize,
    values: Vec<f32>,
    powers: Vec<f32>,
    /// The lines that have a number without a value.
    nan: Vec<bool>,
    /// Those that have a number that is not finite.
    special: Vec<bool>,
    /// Those that have a number that is not zero.
    something: Vec<bool>,
}

impl Factors {
    /// Factors whose bits are given for each step in turn, `lines` for each.
    pub(super) fn new(factor: Factor, lines: usize, bits: &[u16]) -> Self {
        let values: Vec<f32> = match factor {
            Factor::F16 => bits.iter().map(|&bits| Factor::F16.value(bits)).collect(),
            Factor::Bf16 => bits.iter().map(|&bits| Factor::Bf16.value(bits)).collect(),
        };
        let powers = values.iter().map(|&value| factor.power(value)).collect();
        let (mut nan, mut special) = (vec![false; lines], vec![false; lines]);
        let mut something = vec![false; lines];
        for line in values.chunks_exact(lines) {
            for (at, value) in line.iter().enumerate() {
                nan[at] |= value.is_nan();
                special[at] |= !value.is_finite();
                something[at] |= *value != 0.0;
            }
        }
        Self { lines, values, powers, nan, special, something }
    }

    fn value(&self, line: usize, step: usize) -> f32 {
        self.values[step * self.lines + line]
    }

    fn power(&self, line: usize, step: usize) -> f32 {
        self.powers[step * self.lines + line]
    }
}

/// Adds the product of `a`, whose lines are rows of C, and `b`, whose lines are its columns, to C, row-major.
pub(super) fn multiply(a: &Factors, b: &Factors, c: &mut [f32]) {
    if !b.lines.is_multiple_of(LANES) {
        return one_by_one(a, b, c);
    }
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions.
            return unsafe { multiply_avx512(a, b, c) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { multiply_avx2(a, b, c) };
        }
    }
    in_lanes(a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
fn multiply_avx512(a: &Factors, b: &Factors, c: &mut [f32]) {
    in_lanes(a, b, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn multiply_avx2(a: &Factors, b: &Factors, c: &mut [f32]) {
    in_lanes(a, b, c);
}

/// Each sum by itself.
fn one_by_one(a: &Factors, b: &Factors, c: &mut [f32]) {
    for (row, c) in c.chunks_exact_mut(b.lines).enumerate() {
        for (column, c) in c.iter_mut().enumerate() {
            *c = element(a, b, (row, column), *c);
        }
    }
}

fn element(a: &Factors, b: &Factors, (row, column): (usize, usize), c: f32) -> f32 {
    if a.nan[row] || b.nan[column] {
        return NAN;
    }
    let factors: [[(f32, f32); 2]; DEPTH] = std::array::from_fn(|step| {
        [(a.value(row, step), a.power(row, step)), (b.value(column, step), b.power(column, step))]
    });
    sum(&factors, c)
}

/// The sums of a row, [`LANES`] at a time.
#[inline(always)]
fn in_lanes(a: &Factors, b: &Factors, c: &mut [f32]) {
    for (row, c) in c.chunks_exact_mut(b.lines).enumerate() {
        let values: [f32; DEPTH] = std::array::from_fn(|step| a.value(row, step));
        let powers: [f32; DEPTH] = std::array::from_fn(|step| a.power(row, step));
        if a.nan[row] {
            c.fill(NAN);
            continue;
        }
        for (at, c) in c.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let column = at * LANES;
            if adds_nothing((a, row), (b, column), c) {
                continue;
            }
            if b.nan[column..column + LANES].iter().all(|&nan| nan) {
                *c = [NAN; LANES];
                continue;
            }
            if a.special[row] || !sum_in_lanes((&values, &powers), (b, column), c) {
                for (lane, c) in c.iter_mut().enumerate() {
                    *c = element(a, b, (row, column + lane), *c);
                }
            }
        }
    }
}

/// Whether all products of a row with [`LANES`] columns are zero, as they are outside of a matrix, and each sum stays
/// what it is: a number with a value has no bit that is cut.
#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "one loop with no early end, which is made of vectors"
)]
fn adds_nothing(
    (a, row): (&Factors, usize),
    (b, column): (&Factors, usize),
    c: &[f32; LANES],
) -> bool {
    let (mut something, mut special) = (false, a.special[row]);
    for lane in 0..LANES {
        something |= b.something[column + lane];
        special |= b.special[column + lane] | (c[lane].to_bits() & EXPONENT == EXPONENT);
    }
    !(something & a.something[row]) & !special
}

/// Adds to [`LANES`] neighbours; false, and nothing added, where a term or the sum could leave the range of f32.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "steps and lanes index several arrays alike")]
fn sum_in_lanes(
    (values, powers): (&[f32; DEPTH], &[f32; DEPTH]),
    (b, column): (&Factors, usize),
    c: &mut [f32; LANES],
) -> bool {
    const LEAST: f32 = f32::from_bits((127 - 100) << 23);
    const MOST: f32 = f32::from_bits((127 + 120) << 23);
    let line = |of: &[f32], step: usize| -> [f32; LANES] {
        let at = step * b.lines + column;
        let line: &[f32; LANES] = of[at..at + LANES].try_into().expect("invariant: whole lanes");
        *line
    };
    let mut largest: [f32; LANES] =
        std::array::from_fn(|lane| f32::from_bits(c[lane].to_bits() & EXPONENT));
    for step in 0..DEPTH {
        let of_b = line(&b.powers, step);
        for lane in 0..LANES {
            let power = powers[step] * of_b[lane];
            largest[lane] = if power > largest[lane] { power } else { largest[lane] };
        }
    }
    let mut within = true;
    let mut nothing = [false; LANES];
    let mut some_nothing = false;
    for lane in 0..LANES {
        nothing[lane] = (largest[lane] == 0.0) & (c[lane] == 0.0);
        some_nothing |= nothing[lane];
        within &= ((largest[lane] >= LEAST) & (largest[lane] <= MOST)) | nothing[lane];
        within &= !b.special[column + lane];
    }
    if !within {
        return false;
    }
    if some_nothing {
        // A product whose power is below every f32 is something, too.
        for step in 0..DEPTH {
            let of_b = line(&b.powers, step);
            for lane in 0..LANES {
                within &= !nothing[lane] | (powers[step] == 0.0) | (of_b[lane] == 0.0);
            }
        }
        if !within {
            return false;
        }
    }
    let mut scale = [0.0f32; LANES];
    for lane in 0..LANES {
        if nothing[lane] {
            largest[lane] = 1.0;
        }
        // 2^25 over the largest power, whose exponent field is between 27 and 247.
        scale[lane] = f32::from_bits(((2 * 127 + KEPT as u32) << 23) - largest[lane].to_bits());
    }
    let cut = |term: f32| -> i32 {
        // SAFETY: a product is below 4 times its power, which is at most the largest, so a term is below 2^27.
        unsafe { term.to_int_unchecked::<i32>() }
    };
    let mut acc = [[0i32; LANES]; 2];
    for (half, acc) in acc.iter_mut().enumerate() {
        for step in half * DEPTH / 2..(half + 1) * DEPTH / 2 {
            let of_b = line(&b.values, step);
            for lane in 0..LANES {
                acc[lane] += cut(values[step] * of_b[lane] * scale[lane]);
            }
        }
    }
    for lane in 0..LANES {
        let old = cut(c[lane] * scale[lane]);
        // Eight terms below 2^27 and one below 2^26 fit 32 bits; two such sums do not.
        let sum = f64::from(acc[0][lane] + old) + f64::from(acc[1][lane]);
        let exact = sum * f64::from(largest[lane]) * f64::from(f32::from_bits((127 - 25) << 23));
        // The 23 bits that an f32 has of it.
        #[expect(clippy::cast_possible_truncation, reason = "the bits that are lost are zero")]
        let cut = f64::from_bits(exact.to_bits() & !((1 << 29) - 1)) as f32;
        c[lane] = if nothing[lane] { c[lane] } else { cut };
    }
    true
}

/// The significand of a number and the exponent of its unit: the value is the product of the first and two to the second.
fn parts(value: f32, power: f32) -> (i128, i32) {
    let exponent = log2(power);
    // The unit is 2^(exponent - 23), of which the value is a multiple.
    let bits = value.to_bits();
    let fraction = i128::from(bits & 0x7f_ffff);
    let field = (bits & EXPONENT) >> 23;
    let (significand, unit) =
        if field == 0 { (fraction, -149) } else { (fraction | 1 << 23, field.cast_signed() - 150) };
    // A subnormal number of a short type is normal in f32: its unit there is finer.
    let shift = exponent - 23 - unit;
    let significand = if shift >= 0 { significand >> shift } else { significand << -shift };
    (if bits >> 31 == 0 { significand } else { -significand }, exponent)
}

/// The exponent of a power of two that is a normal number.
fn log2(power: f32) -> i32 {
    (power.to_bits() >> 23).cast_signed() - 127
}

/// One sum: products of factors, each with its power, and the old value.
fn sum(factors: &[[(f32, f32); 2]; DEPTH], c: f32) -> f32 {
    let terms = || factors.iter().map(|[(x, _), (y, _)]| f64::from(*x) * f64::from(*y));
    let infinities = terms().chain([f64::from(c)]).filter(|term| !term.is_finite());
    let (mut plus, mut minus, mut special) = (false, false, false);
    for term in infinities {
        special |= term.is_nan();
        plus |= term == f64::INFINITY;
        minus |= term == f64::NEG_INFINITY;
    }
    if special || plus && minus {
        return NAN;
    }
    if plus || minus {
        return if plus { f32::INFINITY } else { f32::NEG_INFINITY };
    }
    // Each term as a significand in units of 2^(exponent - 46), products of 2^-23 and 2^-23.
    let mut all = [(0i128, i32::MIN); DEPTH + 1];
    for (term, [(x, x_power), (y, y_power)]) in all.iter_mut().zip(factors) {
        if *x != 0.0 && *y != 0.0 {
            let ((x, x_exponent), (y, y_exponent)) = (parts(*x, *x_power), parts(*y, *y_power));
            *term = (x * y, x_exponent + y_exponent);
        }
    }
    if c != 0.0 {
        let power = f32::from_bits(c.to_bits() & EXPONENT).max(f32::MIN_POSITIVE);
        let (significand, exponent) = parts(c, power);
        all[DEPTH] = (significand << 23, exponent);
    }
    let largest = all.iter().map(|term| term.1).max().unwrap_or(i32::MIN);
    if largest == i32::MIN {
        return c;
    }
    let largest = largest.max(LEAST_EXPONENT);
    let total: i128 = all
        .iter()
        .filter(|term| term.1 != i32::MIN)
        .map(|&(significand, exponent)| {
            // In units of 2^(largest - 25), toward zero.
            let shift = (largest - exponent + 46 - KEPT).min(127);
            significand.signum() * (significand.abs() >> shift)
        })
        .sum();
    cut(total, largest - KEPT)
}

/// The f32 of `total` units of two to `unit`, toward zero.
fn cut(total: i128, unit: i32) -> f32 {
    if total == 0 {
        return 0.0;
    }
    let sign = if total < 0 { 1u32 << 31 } else { 0 };
    let magnitude = total.unsigned_abs();
    let top = 127 - magnitude.leading_zeros().cast_signed();
    let exponent = top + unit;
    if exponent > 127 {
        return f32::from_bits(sign | EXPONENT);
    }
    // The lowest bit that the result keeps.
    let lowest = (exponent - 23).max(-149);
    let shift = lowest - unit;
    let kept = if shift >= 128 {
        0
    } else if shift >= 0 {
        magnitude >> shift
    } else {
        magnitude << -shift
    };
    let kept = u32::try_from(kept).expect("invariant: 24 bits are kept");
    if kept == 0 {
        // What is cut to nothing has no sign.
        return 0.0;
    }
    let field = if exponent < -126 { 0 } else { (exponent + 127).cast_unsigned() << 23 };
    f32::from_bits(sign | field | kept & 0x7f_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn word(&mut self) -> u32 {
            u32::try_from(self.next() >> 32).unwrap()
        }

        /// A finite factor whose exponent is one of `span` around a middle.
        fn factor(&mut self, factor: Factor, span: u32) -> u16 {
            let word = self.word();
            let (bits, fields) = match factor {
                Factor::F16 => (10, 31),
                Factor::Bf16 => (7, 255),
            };
            let field = (fields / 2 + word % span).saturating_sub(span / 2).min(fields - 1);
            let fraction = (word >> 8) & ((1 << bits) - 1);
            let zero = word >> 24 & 15 == 0;
            if zero {
                0
            } else {
                u16::try_from(word >> 31 << 15 | field << bits | fraction).unwrap()
            }
        }
    }

    fn same(x: f32, y: f32) -> bool {
        x.to_bits() == y.to_bits()
    }

    /// A way to multiply.
    type Multiply = fn(&Factors, &Factors, &mut [f32]);

    /// The sums in lanes, by each set of instructions that the processor has.
    fn in_every_set() -> Vec<(&'static str, Multiply)> {
        let mut all: Vec<(&'static str, Multiply)> =
            vec![("baseline", |a, b, c| in_lanes(a, b, c))];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has the instructions.
                all.push(("avx2", |a, b, c| unsafe { multiply_avx2(a, b, c) }));
            }
            if std::is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has the instructions.
                all.push(("avx512", |a, b, c| unsafe { multiply_avx512(a, b, c) }));
            }
        }
        all
    }

    /// Holds every way of summing in lanes to the sums one by one; how many there were.
    fn compare(what: &str, a: &Factors, b: &Factors, c: &[f32]) -> usize {
        let mut one = c.to_vec();
        one_by_one(a, b, &mut one);
        for (set, multiply) in in_every_set() {
            let mut lanes = c.to_vec();
            multiply(a, b, &mut lanes);
            let wrong = one.iter().zip(&lanes).position(|(one, lanes)| !same(*one, *lanes));
            if let Some(at) = wrong {
                panic!("{what}, {set}, sum {at}: {:e} one by one, {:e}", one[at], lanes[at]);
            }
        }
        c.len()
    }

    #[test]
    fn sums_in_lanes_are_the_sums_one_by_one() {
        const ROWS: usize = 8;
        const COLUMNS: usize = 32;
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut checked = 0;
        for factor in [Factor::F16, Factor::Bf16] {
            for span in [1, 2, 4, 8, 16, 31, 60, 120, 255] {
                for round in 0..220 {
                    let lines = |numbers: &mut Numbers, lines: usize| {
                        let bits: Vec<u16> =
                            (0..DEPTH * lines).map(|_| numbers.factor(factor, span)).collect();
                        Factors::new(factor, lines, &bits)
                    };
                    let (a, b) = (lines(&mut numbers, ROWS), lines(&mut numbers, COLUMNS));
                    let spread = [0, 30, 60, 254][round % 4];
                    let c: Vec<f32> = (0..ROWS * COLUMNS)
                        .map(|_| {
                            let word = numbers.word();
                            let field = 127 + (word >> 8) % (spread / 2 + 1);
                            let field = if spread == 0 { 0 } else { field - spread / 4 };
                            f32::from_bits(word << 31 | field.min(254) << 23 | word >> 9)
                        })
                        .map(|c| if spread == 0 { 0.0 } else { c })
                        .collect();
                    checked += compare(&format!("{factor:?}, span {span}"), &a, &b, &c);
                }
            }
        }
        assert!(checked > 1_000_000, "{checked}");
    }

    /// Whatever bits the factors have, and old sums of every exponent: zeros, subnormal numbers, infinities and NaNs.
    #[test]
    fn sums_of_edges_in_lanes_are_the_sums_one_by_one() {
        let mut numbers = Numbers(77);
        let edges: [[u16; 8]; 2] = [
            [0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0x3c00],
            [0, 0x8000, 1, 0x807f, 0x0080, 0x7f7f, 0xff80, 0x3f80],
        ];
        let old = [0.0, -0.0, f32::from_bits(1), -f32::MIN_POSITIVE, f32::MAX, 1.0, f32::INFINITY];
        for (factor, edges) in [Factor::F16, Factor::Bf16].into_iter().zip(edges) {
            // The more often zeros come, the more sums are finite.
            for zeros in [0, 4, 12, 15, 16] {
                for round in 0..40 {
                    let lines = |numbers: &mut Numbers, lines: usize| {
                        let mut bit = || {
                            let word = numbers.word();
                            let any = (word >> 16) as u16;
                            let edge = edges[(word >> 8) as usize % edges.len()];
                            let zero = any & 0x8000;
                            match word % 16 {
                                chance if chance < zeros => zero,
                                _ if round % 3 == 0 => any,
                                // The least exponents.
                                _ if round % 3 == 1 => any & 0x80ff,
                                _ => edge,
                            }
                        };
                        let mut bits: Vec<u16> = (0..DEPTH * lines).map(|_| bit()).collect();
                        // A line of zeros.
                        bits.iter_mut().step_by(lines).for_each(|bits| *bits = 0);
                        Factors::new(factor, lines, &bits)
                    };
                    let (a, b) = (lines(&mut numbers, 8), lines(&mut numbers, 32));
                    let c: Vec<f32> = (0..8 * 32)
                        .map(|at| match at % 3 {
                            0 => old[at % old.len()],
                            _ => f32::from_bits(numbers.word()),
                        })
                        .collect();
                    compare(&format!("{factor:?}, {zeros} of 16 zeros"), &a, &b, &c);
                }
            }
        }
    }

    /// What the description says of one term, two, and their order.
    #[test]
    fn terms_are_cut_25_bits_below_the_largest_exponent() {
        let one = |x: f32| (x, Factor::F16.power(x));
        let of = |terms: &[(f32, f32)], c: f32| {
            let mut factors = [[(0.0, 0.0); 2]; DEPTH];
            for (factor, &(x, y)) in factors.iter_mut().zip(terms) {
                *factor = [one(x), one(y)];
            }
            sum(&factors, c)
        };
        let two = |exponent: i32| f32::from_bits((exponent + 127).cast_unsigned() << 23);
        assert!(same(of(&[], 0.0), 0.0));
        assert!(same(of(&[(1.0, 1.0)], 0.0), 1.0));
        // A unit 25 bits below is kept until the sum is cut to 24 bits.
        assert!(same(of(&[(1.0, 1.0), (two(-12), two(-13))], -1.0), two(-25)));
        assert!(same(of(&[(1.0, 1.0), (two(-13), two(-13))], -1.0), 0.0));
        // The exponent of a product of two significands near two is not that of its value, which is near four.
        let near = 2.0 - two(-10);
        let tiny = (two(-12), two(-13));
        assert!(same(of(&[(near, near), (-near, near), tiny], 0.0), two(-25)));
        assert!(same(of(&[(2.0, near), (-2.0, near), tiny], 0.0), 0.0));
        // Toward zero on both sides.
        assert!(same(of(&[(1.0, 1.0), (two(-12), two(-12))], 0.0), 1.0));
        assert!(same(of(&[(-1.0, 1.0), (two(-12), -two(-12))], 0.0), -1.0));
        assert!(same(of(&[(1.0, f32::INFINITY)], 0.0), f32::INFINITY));
        assert!(same(of(&[(0.0, f32::INFINITY)], 0.0), NAN));
    }

    #[test]
    fn numbers_that_are_not_finite_reach_their_row_and_column_alone() {
        let mut numbers = Numbers(1);
        let mut bits = |lines: usize| -> Vec<u16> {
            (0..DEPTH * lines).map(|_| numbers.factor(Factor::F16, 4)).collect()
        };
        let (mut a, mut b) = (bits(8), bits(32));
        (a[3], b[17], b[32 + 21], b[2 * 32 + 5]) = (0x7e00, 0x7c00, 0x7fff, 0xfc00);
        let (a, b) = (Factors::new(Factor::F16, 8, &a), Factors::new(Factor::F16, 32, &b));
        let (mut one, mut lanes) = (vec![1.0; 8 * 32], vec![1.0; 8 * 32]);
        one_by_one(&a, &b, &mut one);
        in_lanes(&a, &b, &mut lanes);
        for (at, (one, lanes)) in one.iter().zip(&lanes).enumerate() {
            assert!(same(*one, *lanes), "{at}: {one} {lanes}");
            let finite = at / 32 != 3 && ![17, 21, 5].contains(&(at % 32));
            assert_eq!(one.is_finite(), finite, "{at}");
        }
    }

    #[test]
    fn values_are_those_of_the_formats() {
        for bits in 0..=u16::MAX {
            let half = half::f16::from_bits(bits).to_f32();
            let value = Factor::F16.value(bits);
            assert!(same(half, value) || half.is_nan() && value.is_nan(), "{bits:#x}");
            let half = half::bf16::from_bits(bits).to_f32();
            assert!(same(half, Factor::Bf16.value(bits)) || half.is_nan());
        }
    }
}

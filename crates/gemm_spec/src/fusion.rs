//! What is done to the sums of a product besides scaling, before they are rounded and stored: the fused
//! epilogue.
//!
//! An element of D is, with what is absent left out:
//!
//! ```text
//! v     = (alpha * row_scale[row] * column_scale[col]) * sum + beta * C[row][col]     one rounding after the factors
//! D     = round(activation(v + bias[row] or bias[col]))
//! amax  = max(amax, |D|)
//! ```
//!
//! The host and the device use the same definitions. What differs is how a power of two and a reciprocal are
//! computed: the device has instructions for them that are off by a unit in the last place or two.

/// Which elements of D a bias has one number for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bias {
    /// m numbers: each is added to a row.
    PerRow,
    /// n numbers: each is added to a column.
    PerColumn,
}

/// A function of each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// None.
    #[default]
    Identity,
    /// `max(x, 0)`, NaN for NaN.
    Relu,
    /// `x * Phi(x)`, where `Phi` is the distribution function of the normal distribution.
    Gelu,
    /// The same with `Phi(x)` replaced by `(1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2`.
    GeluTanh,
    /// `x / (1 + exp(-x))`, also called swish.
    Silu,
}

impl Activation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Identity, Self::Relu, Self::Gelu, Self::GeluTanh, Self::Silu];

    /// Its name, as programs spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "none",
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Silu => "silu",
        }
    }

    /// Whether it needs exponentials, which only sums of f32 have.
    #[must_use]
    pub const fn is_smooth(self) -> bool {
        matches!(self, Self::Gelu | Self::GeluTanh | Self::Silu)
    }

    /// The function of one number.
    #[inline(always)]
    #[must_use]
    pub fn apply<P: Powers>(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Relu => relu(x),
            Self::Gelu | Self::GeluTanh | Self::Silu => {
                let curve = Curve::of(Epilogue::new(None, self).flags());
                let (size, share, r) = curve.share::<P>(x);
                let factor = if curve.polynomial { Curve::polynomial(r) } else { 1.0 };
                Curve::value(x, size, share * factor)
            }
        }
    }
}

/// What a product's epilogue does besides `alpha * A * B + beta * C`. The numbers are given when the product
/// is computed: a bias of D's type, scales of the sums' type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// Numbers that are added.
    pub bias: Option<Bias>,
    /// Whether each row of the product has a factor.
    pub row_scales: bool,
    /// Whether each column of the product has a factor.
    pub column_scales: bool,
    /// The function of what that gives.
    pub activation: Activation,
    /// Whether the largest magnitude of D is stored, as an f32; NaN if an element is.
    pub amax: bool,
    /// Whether alpha and beta are in device memory, where the product is computed on a device.
    pub device_scalars: bool,
}

impl Epilogue {
    /// Nothing.
    pub const NONE: Self = Self {
        bias: None,
        row_scales: false,
        column_scales: false,
        activation: Activation::Identity,
        amax: false,
        device_scalars: false,
    };

    /// A bias, then an activation.
    #[must_use]
    pub const fn new(bias: Option<Bias>, activation: Activation) -> Self {
        Self { bias, activation, ..Self::NONE }
    }

    /// The same with a factor for each row.
    #[must_use]
    pub const fn with_row_scales(self) -> Self {
        Self { row_scales: true, ..self }
    }

    /// The same with a factor for each column.
    #[must_use]
    pub const fn with_column_scales(self) -> Self {
        Self { column_scales: true, ..self }
    }

    /// The same, storing the largest magnitude of D as well.
    #[must_use]
    pub const fn with_amax(self) -> Self {
        Self { amax: true, ..self }
    }

    /// The same with an alpha and a beta that are in device memory.
    #[must_use]
    pub const fn with_device_scalars(self) -> Self {
        Self { device_scalars: true, ..self }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether factors depend on the row or the column.
    #[must_use]
    pub const fn scales(self) -> bool {
        self.row_scales || self.column_scales
    }

    /// Whether something of it depends on the row.
    #[must_use]
    pub const fn depends_on_row(self) -> bool {
        self.row_scales || matches!(self.bias, Some(Bias::PerRow))
    }

    /// The same of the transposed product.
    #[must_use]
    pub const fn transposed(self) -> Self {
        let bias = match self.bias {
            Some(Bias::PerRow) => Some(Bias::PerColumn),
            Some(Bias::PerColumn) => Some(Bias::PerRow),
            None => None,
        };
        let (row_scales, column_scales) = (self.column_scales, self.row_scales);
        Self { bias, row_scales, column_scales, ..self }
    }

    /// As a kernel is told: zero for nothing.
    #[must_use]
    pub const fn flags(self) -> u32 {
        let bias = match self.bias {
            Some(Bias::PerRow) => ROW_BIAS,
            Some(Bias::PerColumn) => COLUMN_BIAS,
            None => 0,
        };
        let activation = match self.activation {
            Activation::Identity => 0,
            Activation::Relu => RELU,
            Activation::Gelu => GELU,
            Activation::GeluTanh => GELU_TANH,
            Activation::Silu => SILU,
        };
        bias | activation
            | if self.row_scales { ROW_SCALES } else { 0 }
            | if self.column_scales { COLUMN_SCALES } else { 0 }
            | if self.amax { AMAX } else { 0 }
            | if self.device_scalars { SCALARS } else { 0 }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Epilogue {
    /// The same of products in host memory, whose alpha and beta are there as well.
    ///
    /// # Errors
    /// As [`Epilogue::check`].
    pub fn check_in_host_memory(self, types: crate::Types) -> Result<(), String> {
        if self.device_scalars {
            return Err("alpha and beta in device memory are for products on a device".to_owned());
        }
        self.check(types)
    }

    /// Checks that sums of products of those types have all that is asked for.
    ///
    /// # Errors
    /// What they have not, in words.
    pub fn check(self, types: crate::Types) -> Result<(), String> {
        match types.acc() {
            crate::AccType::F32 => Ok(()),
            _ if self.is_none() => Ok(()),
            crate::AccType::I32 => Err(format!(
                "products of {types} have no epilogue: it is for floating-point accumulators"
            )),
            crate::AccType::F64 if self.activation.is_smooth() => Err(format!(
                "{} is of accumulators of f32, and those of {types} are of f64: they have relu",
                self.activation.name()
            )),
            crate::AccType::F64 if self.amax => {
                Err("the largest magnitude is of accumulators of f32, and these are of f64"
                    .to_owned())
            }
            crate::AccType::F64 => Ok(()),
        }
    }
}

/// Flag of [`Bias::PerRow`].
pub const ROW_BIAS: u32 = 1;
/// Flag of [`Bias::PerColumn`].
pub const COLUMN_BIAS: u32 = 1 << 1;
/// Flag of a factor for each row.
pub const ROW_SCALES: u32 = 1 << 2;
/// Flag of a factor for each column.
pub const COLUMN_SCALES: u32 = 1 << 3;
/// Flag of the largest magnitude.
pub const AMAX: u32 = 1 << 4;
/// Flag of a C that is read elsewhere than D is written.
pub const APART: u32 = 1 << 5;
/// Flag of an alpha and a beta in device memory.
pub const SCALARS: u32 = 1 << 6;
/// The flags of activations, of which one is set at most.
pub const ACTIVATION: u32 = RELU | GELU | GELU_TANH | SILU;
/// Flag of [`Activation::Relu`].
pub const RELU: u32 = 1 << 8;
/// Flag of [`Activation::Gelu`].
pub const GELU: u32 = 1 << 9;
/// Flag of [`Activation::GeluTanh`].
pub const GELU_TANH: u32 = 1 << 10;
/// Flag of [`Activation::Silu`].
pub const SILU: u32 = 1 << 11;

/// Threads of a block of the helper that finishes sums.
pub const FINISH_THREADS: u32 = 256;
/// Most products of a launch of it: blocks along y.
#[cfg(not(target_arch = "nvptx64"))]
pub const FINISH_PRODUCTS: usize = 65_535;
/// Blocks of it for each SM.
#[cfg(not(target_arch = "nvptx64"))]
const FINISH_BLOCKS: u32 = 8;

/// The blocks of a launch that finishes `products` products of m by n: for each run of a row one, or as many
/// as run at once. None where there are none, or more than [`FINISH_PRODUCTS`].
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn finish_grid(m: u32, n: u32, products: usize, multiprocessors: u32) -> Option<crate::Grid> {
    let runs = u64::from(m) * u64::from(crate::index::ceil_div(n, FINISH_THREADS));
    let y = u32::try_from(products).ok().filter(|_| products <= FINISH_PRODUCTS)?;
    let x = runs.min(u64::from((multiprocessors * FINISH_BLOCKS).max(1)));
    (runs > 0 && y > 0).then(|| crate::Grid { x: x.try_into().unwrap_or(u32::MAX), y, z: 1 })
}

/// How an implementation computes powers of two and reciprocals.
pub trait Powers {
    /// `2^x`, zero where that is less than the least normal number.
    fn exp2(x: f32) -> f32;

    /// `1/x`.
    fn reciprocal(x: f32) -> f32;
}

/// As the standard library and the processor do.
#[cfg(not(target_arch = "nvptx64"))]
pub struct HostPowers;

#[cfg(not(target_arch = "nvptx64"))]
impl Powers for HostPowers {
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        x.exp2()
    }

    #[inline(always)]
    fn reciprocal(x: f32) -> f32 {
        x.recip()
    }
}

/// `max(x, 0)`, NaN for NaN.
#[inline(always)]
#[must_use]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// `log2(e)`.
const LOG2_E: f32 = core::f32::consts::LOG2_E;
/// Beyond this magnitude an activation is zero or its argument.
const LARGE: f32 = 128.0;

/// A smooth activation: `max(x, 0) - |x| * share(|x|)`, where the share is that of the other sign.
///
/// With `e = 2^-(|x| * (linear + |x| * (square + |x| * cubic)))` and `r = 1 / (1 + weight * e + slope * |x|)` the
/// share is `e * r`, times a polynomial in r for [`Activation::Gelu`]. One form for all of them is one piece of
/// code in a kernel, where each of a thread's accumulators has a copy of it.
#[derive(Clone, Copy)]
pub struct Curve {
    linear: f32,
    square: f32,
    cubic: f32,
    weight: f32,
    slope: f32,
    polynomial: bool,
}

impl Curve {
    /// `1 / (1 + exp(-x))` is the share of x's own sign.
    const SILU: Self = Self {
        linear: LOG2_E,
        square: 0.0,
        cubic: 0.0,
        weight: 1.0,
        slope: 0.0,
        polynomial: false,
    };

    /// The logistic function of twice tanh's argument: `2 sqrt(2/pi) log2(e)`, and 0.044715 times that.
    const GELU_TANH: Self = Self { linear: 2.302_208_2, cubic: 0.102_943_24, ..Self::SILU };

    /// With `t = 1 / (1 + p |x|)`, `Phi(-|x|)` is `exp(-x^2/2)` times a polynomial in t, as in formula 7.1.26 of
    /// Abramowitz and Stegun.
    const GELU: Self = Self {
        linear: 0.0,
        square: 0.5 * LOG2_E,
        cubic: 0.0,
        weight: 0.0,
        slope: 0.36,
        polynomial: true,
    };

    /// That of the activation that flags name; any where they name none.
    #[inline(always)]
    #[must_use]
    pub fn of(fusion: u32) -> Self {
        match fusion & ACTIVATION {
            GELU => Self::GELU,
            GELU_TANH => Self::GELU_TANH,
            _ => Self::SILU,
        }
    }

    /// Whether [`Curve::polynomial`] is a factor of the share.
    #[inline(always)]
    #[must_use]
    pub const fn has_polynomial(&self) -> bool {
        self.polynomial
    }

    /// `|x|`, at most 128, which is also what it is for NaN; the share without the polynomial; and r.
    #[inline(always)]
    #[must_use]
    pub fn share<P: Powers>(&self, x: f32) -> (f32, f32, f32) {
        let size = f32::from_bits(x.to_bits() & !(1 << 31));
        let size = if size < LARGE { size } else { LARGE };
        let exponent = fma(fma(self.cubic, size, self.square), size, self.linear) * size;
        let power = P::exp2(-exponent);
        let r = P::reciprocal(fma(self.slope, size, fma(self.weight, power, 1.0)));
        (size, power * r, r)
    }

    /// The polynomial of [`Activation::Gelu`]: of seven terms with r before it, fitted to the least relative
    /// error for |x| up to 13, which is below 8e-7.
    #[inline(always)]
    #[must_use]
    pub fn polynomial(r: f32) -> f32 {
        const TERMS: [f32; 7] = [
            0.143_722_18,
            0.141_644_53,
            0.140_417_1,
            0.024_643_51,
            0.183_717_75,
            -0.181_794_4,
            0.047_649_402,
        ];
        let mut sum = fma(TERMS[6], r, TERMS[5]);
        sum = fma(sum, r, TERMS[4]);
        sum = fma(sum, r, TERMS[3]);
        sum = fma(sum, r, TERMS[2]);
        sum = fma(sum, r, TERMS[1]);
        fma(sum, r, TERMS[0])
    }

    /// The activation, given the share.
    #[inline(always)]
    #[must_use]
    pub fn value(x: f32, size: f32, share: f32) -> f32 {
        fma(-size, share, relu(x))
    }
}

/// `a * b + c`, rounded once.
#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    crate::Accumulator::mul_add(a, b, c)
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// `Phi(x)` by its series, and by the continued fraction of its tail: f64 to a few units.
    fn normal_distribution(x: f64) -> f64 {
        let density = (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt();
        if x.abs() < 3.0 {
            let (mut term, mut sum) = (x, x);
            for at in 1..200 {
                term *= x * x / f64::from(2 * at + 1);
                sum += term;
            }
            return 0.5 + density * sum;
        }
        let fraction = (1..200).rev().fold(0.0, |below, at| f64::from(at) / (x.abs() + below));
        let tail = density / (x.abs() + fraction);
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    fn exact(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::Identity => x,
            Activation::Relu => x.max(0.0),
            Activation::Gelu => x * normal_distribution(x),
            Activation::GeluTanh => {
                let u = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                x / (1.0 + (-2.0 * u).exp())
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
        }
    }

    #[test]
    fn activations_are_within_a_few_units_of_their_definitions() {
        for activation in Activation::ALL {
            let mut worst = 0.0f64;
            for step in -20_000..=20_000i32 {
                let x = step as f32 * 4.5e-4;
                let wanted = exact(activation, f64::from(x));
                let error = (f64::from(activation.apply::<HostPowers>(x)) - wanted).abs();
                worst = worst.max(error / wanted.abs().max(1e-30));
            }
            // The rounding of the exponent grows with it; it is 95 for the largest of these.
            assert!(worst < 1e-5, "{} is off by {worst:e}", activation.name());
        }
    }

    #[test]
    fn large_arguments_and_numbers_that_are_none() {
        for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu] {
            let of = |x| activation.apply::<HostPowers>(x);
            assert_eq!(of(1e30), 1e30, "{}", activation.name());
            assert_eq!(of(f32::INFINITY), f32::INFINITY);
            assert_eq!(of(-1e30), 0.0);
            assert_eq!(of(f32::NEG_INFINITY), 0.0);
            assert_eq!(of(0.0), 0.0);
            assert!(of(f32::NAN).is_nan());
        }
        assert!(relu(f32::NAN).is_nan());
        assert_eq!([relu(-3.0), relu(3.0)], [0.0, 3.0]);
    }

    #[test]
    fn nothing_has_no_flags_and_each_thing_its_own() {
        assert_eq!(Epilogue::NONE.flags(), 0);
        let biased = |bias| Epilogue::new(Some(bias), Activation::Identity);
        let mut seen = 0u32;
        let all = [
            biased(Bias::PerRow),
            biased(Bias::PerColumn),
            Epilogue::NONE.with_row_scales(),
            Epilogue::NONE.with_column_scales(),
            Epilogue::NONE.with_amax(),
        ];
        let activations =
            Activation::ALL.into_iter().skip(1).map(|activation| Epilogue::new(None, activation));
        for epilogue in all.into_iter().chain(activations) {
            assert_eq!(epilogue.flags().count_ones(), 1);
            assert_eq!(epilogue.flags() & seen, 0);
            assert_eq!(epilogue.transposed().transposed(), epilogue);
            seen |= epilogue.flags();
        }
    }
}

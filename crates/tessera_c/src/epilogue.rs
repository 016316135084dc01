//! What is done to a product besides scaling, and the numbers for it.

use std::ffi::c_void;

use tessera::gpu::{Activation, Bias, Epilogue, EpilogueOperands};
use tessera_raw::{Epilogue as RawEpilogue, Numbers};

use crate::engine::unknown;
use crate::plan::address;
use crate::sized::{self, Sized};
use crate::status::Fault;

/// Each element stays as it is.
pub const TESSERA_ACTIVATION_NONE: i32 = 0;
/// max(x, 0), NaN for NaN.
pub const TESSERA_ACTIVATION_RELU: i32 = 1;
/// x * Phi(x), where Phi is the distribution function of the normal distribution.
pub const TESSERA_ACTIVATION_GELU: i32 = 2;
/// The same with Phi(x) replaced by (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.
pub const TESSERA_ACTIVATION_GELU_TANH: i32 = 3;
/// x / (1 + exp(-x)), also called swish.
pub const TESSERA_ACTIVATION_SILU: i32 = 4;

/// Nothing is added.
pub const TESSERA_BIAS_NONE: i32 = 0;
/// m numbers, each of which is added to a row.
pub const TESSERA_BIAS_PER_ROW: i32 = 1;
/// n numbers, each of which is added to a column.
pub const TESSERA_BIAS_PER_COLUMN: i32 = 2;

/// What is done to the sums of a product before they are rounded and stored:
/// D(i, j) = activation(alpha * row_scale(i) * column_scale(j) * (A * B)(i, j) + beta * C(i, j) + bias), for
/// products of floats. Zeros, as of TESSERA_EPILOGUE_INIT, are nothing. The numbers are those of a
/// tessera_epilogue_numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_epilogue {
    /// sizeof(tessera_epilogue)
    pub size: usize,
    /// One of TESSERA_ACTIVATION_*. GELU and SiLU are for sums of float.
    pub activation: i32,
    /// One of TESSERA_BIAS_*.
    pub bias: i32,
    /// Not 0: each row of A * B has a factor.
    pub row_scales: i32,
    /// Not 0: each column of A * B has a factor.
    pub column_scales: i32,
    /// Not 0: the largest magnitude of D is stored as a float, NaN if an element is. For sums of float.
    pub amax: i32,
    /// Not 0: alpha and beta are in device memory, and those of the description are not looked at. For products on a
    /// device.
    pub device_scalars: i32,
    /// Elements from the bias of a product to that of the next; 0 where a batch has one in common. For
    /// products on a device.
    pub bias_stride: usize,
}

// SAFETY: whole numbers, the first of which is the size.
unsafe impl Sized for tessera_epilogue {
    const NAME: &'static str = "tessera_epilogue";
    const LEAST: usize = 40;
}

/// Where the numbers of an epilogue are: on the device for products there, else in host memory. What the
/// epilogue does not have may be NULL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_epilogue_numbers {
    /// sizeof(tessera_epilogue_numbers)
    pub size: usize,
    /// m or n elements of D's type.
    pub bias: *const c_void,
    /// m numbers of the sums' type: D's, or float where that has 16 bits.
    pub row_scales: *const c_void,
    /// n numbers of that type.
    pub column_scales: *const c_void,
    /// Alpha, and behind it beta, of that type.
    pub scalars: *const c_void,
    /// Room for one float.
    pub amax: *mut c_void,
}

// SAFETY: a number, which is the size, and addresses; any bytes are one.
unsafe impl Sized for tessera_epilogue_numbers {
    const NAME: &'static str = "tessera_epilogue_numbers";
    const LEAST: usize = 48;
}

impl tessera_epilogue {
    /// The epilogue in the library's words, and the stride of its bias. Whether the types have it is the
    /// library's to say.
    ///
    /// # Safety
    /// `at` is null or points to such a struct, of whose size its first field tells.
    pub(crate) unsafe fn described(at: *const Self) -> Result<(Epilogue, usize), Fault> {
        if at.is_null() {
            return Ok((Epilogue::NONE, 0));
        }
        // SAFETY: the caller's promise.
        let given = unsafe { sized::read(at, "epilogue") }?;
        let activation = match given.activation {
            TESSERA_ACTIVATION_NONE => Activation::Identity,
            TESSERA_ACTIVATION_RELU => Activation::Relu,
            TESSERA_ACTIVATION_GELU => Activation::Gelu,
            TESSERA_ACTIVATION_GELU_TANH => Activation::GeluTanh,
            TESSERA_ACTIVATION_SILU => Activation::Silu,
            other => return Err(unknown("activation", other, "TESSERA_ACTIVATION_*")),
        };
        let bias = match given.bias {
            TESSERA_BIAS_NONE => None,
            TESSERA_BIAS_PER_ROW => Some(Bias::PerRow),
            TESSERA_BIAS_PER_COLUMN => Some(Bias::PerColumn),
            other => return Err(unknown("bias", other, "TESSERA_BIAS_*")),
        };
        let epilogue = Epilogue {
            row_scales: given.row_scales != 0,
            column_scales: given.column_scales != 0,
            amax: given.amax != 0,
            device_scalars: given.device_scalars != 0,
            ..Epilogue::new(bias, activation)
        };
        Ok((epilogue, given.bias_stride))
    }
}

impl tessera_epilogue_numbers {
    pub(crate) const NONE: Self = Self {
        size: size_of::<Self>(),
        bias: std::ptr::null(),
        row_scales: std::ptr::null(),
        column_scales: std::ptr::null(),
        scalars: std::ptr::null(),
        amax: std::ptr::null_mut(),
    };

    /// What a program gives; nothing where that is null.
    ///
    /// # Safety
    /// `at` is null or points to such a struct, of whose size its first field tells.
    pub(crate) unsafe fn read(at: *const Self, name: &str) -> Result<Self, Fault> {
        // SAFETY: the caller's promise.
        if at.is_null() { Ok(Self::NONE) } else { unsafe { sized::read(at, name) } }
    }

    /// Those of a product on a device.
    pub(crate) fn on_device(self) -> EpilogueOperands {
        EpilogueOperands {
            bias: address(self.bias),
            row_scales: address(self.row_scales),
            column_scales: address(self.column_scales),
            amax: address(self.amax.cast_const()),
            scalars: address(self.scalars),
        }
    }

    /// Those of a product in host memory with that many rows and columns, whose elements and sums have these sizes.
    pub(crate) fn on_host(
        self,
        what: Epilogue,
        [rows, columns]: [usize; 2],
        [element, sum]: [usize; 2],
    ) -> Result<RawEpilogue, Fault> {
        let numbers = |name, at: *const c_void, count: Option<usize>, size: usize| match count {
            None | Some(0) => Ok(Numbers::NONE),
            Some(_) if at.is_null() => Err(Fault::argument(format!("{name} are null"))),
            Some(count) => Ok(Numbers { at: at.cast(), count, stride: size.cast_signed() }),
        };
        let biases = what.bias.map(|bias| match bias {
            Bias::PerRow => rows,
            Bias::PerColumn => columns,
        });
        let factors = |has: bool, count: usize| has.then_some(count);
        Ok(RawEpilogue {
            what,
            bias: numbers("the numbers of the bias", self.bias, biases, element)?,
            row_scales: numbers(
                "row_scales",
                self.row_scales,
                factors(what.row_scales, rows),
                sum,
            )?,
            column_scales: numbers(
                "column_scales",
                self.column_scales,
                factors(what.column_scales, columns),
                sum,
            )?,
        })
    }
}

//! The element types of 16 bits as factors of products whose C is f32.
//!
//! Everything but the type of C is that of `f16` and `bf16`, to which all is delegated: a product
//! adds up the same chains, and stores them as they are.

use core::fmt;

use half::{bf16, f16};

use crate::{DType, Element};

macro_rules! wide_element {
    ($(#[$doc:meta])* $wide:ident($half:ident): $dtype:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub struct $wide(pub $half);

        impl fmt::Display for $wide {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Element for $wide {
            type Acc = f32;
            type Out = f32;

            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = Self($half::ZERO);
            const ONE: Self = Self($half::ONE);

            #[inline(always)]
            fn mul_add(self, b: Self, c: f32) -> f32 {
                Element::mul_add(self.0, b.0, c)
            }

            #[inline(always)]
            fn mul(self, b: Self) -> f32 {
                Element::mul(self.0, b.0)
            }

            #[inline(always)]
            fn widen(self) -> f32 {
                self.0.widen()
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self($half::narrow(value))
            }
        }
    };
}

wide_element! {
    /// An `f16` as an element of A or B where C is f32.
    WideF16(f16): F16F32
}

wide_element! {
    /// A `bf16` as an element of A or B where C is f32.
    WideBf16(bf16): BF16F32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_narrow_types() {
        for bits in (0..=u16::MAX).step_by(7) {
            let (x, y) = (f16::from_bits(bits), f16::from_bits(bits.rotate_left(5)));
            let (wide_x, wide_y) = (WideF16(x), WideF16(y));
            let same = |wide: f32, narrow: f32| wide.to_bits() == narrow.to_bits();
            assert!(same(Element::mul(wide_x, wide_y), Element::mul(x, y)), "{bits:#06x}");
            assert!(same(wide_x.mul_add(wide_y, 0.1), Element::mul_add(x, y, 0.1)), "{bits:#06x}");
            assert!(same(wide_x.widen(), x.widen()), "{bits:#06x}");
            let x = bf16::from_bits(bits);
            assert!(same(WideBf16(x).widen(), x.widen()), "{bits:#06x}");
            let value = f32::from_bits(u32::from(bits) << 16 | 0x8421);
            assert_eq!(WideBf16::narrow(value).0.to_bits(), bf16::narrow(value).to_bits());
            assert_eq!(WideF16::narrow(value).0.to_bits(), f16::narrow(value).to_bits());
        }
    }
}

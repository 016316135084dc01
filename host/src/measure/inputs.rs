//! The operands of a product in host memory, and whether there is room for them.

use gemm_spec::{Element, Operand, Problem};

use crate::error::Error;
use crate::fill::Draw;
use crate::machine;
use crate::scalar::ScalarTypes;
use crate::verify::Method;

/// A, B, and C as it is before the product.
pub(crate) struct Inputs<T: ScalarTypes> {
    pub(crate) a: Vec<T::A>,
    pub(crate) b: Vec<T::B>,
    pub(crate) c: Vec<T::C>,
}

impl<T: ScalarTypes> Inputs<T> {
    /// All three.
    ///
    /// # Errors
    /// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
    pub(crate) fn draw(problem: &Problem<T>, draw: Draw) -> Result<Self, Error> {
        Ok(Self { c: draw.operand(problem, Operand::C)?, ..Self::without_c(problem, draw)? })
    }

    /// Those that the product reads: C is empty where beta is 0.
    ///
    /// # Errors
    /// As [`Inputs::draw`].
    pub(crate) fn that_are_read(problem: &Problem<T>, draw: Draw) -> Result<Self, Error> {
        if reads_c(problem) { Self::draw(problem, draw) } else { Self::without_c(problem, draw) }
    }

    fn without_c(problem: &Problem<T>, draw: Draw) -> Result<Self, Error> {
        let a = draw.operand(problem, Operand::A)?;
        Ok(Self { a, b: draw.operand(problem, Operand::B)?, c: Vec::new() })
    }

    /// What the product reads of C: nothing where beta is 0.
    pub(crate) fn old_c(&self, problem: &Problem<T>) -> &[T::C] {
        if reads_c(problem) { &self.c } else { &[] }
    }
}

fn reads_c<T: ScalarTypes>(problem: &Problem<T>) -> bool {
    problem.beta != T::Acc::ZERO
}

/// The host memory that a measurement of one problem takes.
pub(crate) struct Room {
    /// Copies of A and of B.
    pub(crate) sets: usize,
    /// Matrices of C's size: inputs, results, and what is kept for a check.
    pub(crate) of_c: usize,
    /// The check, whose reference may be larger than C.
    pub(crate) check: Method,
}

impl Room {
    /// Refuses before anything is allocated what the memory cannot hold; `what` needs it.
    ///
    /// # Errors
    /// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
    pub(crate) fn check<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        what: &str,
    ) -> Result<(), Error> {
        machine::check_memory(what, self.bytes(problem))
    }

    /// A product as messages name it.
    pub(crate) fn of_a_product<T: ScalarTypes>(&self, problem: &Problem<T>) -> String {
        let Problem { m, n, k, .. } = problem;
        let whole = self.check.reference_bytes(problem) > 0;
        let checked = if whole { " with every element checked" } else { "" };
        format!("a product of {m} x {n} x {k}{checked}")
    }

    fn bytes<T: ScalarTypes>(&self, problem: &Problem<T>) -> u128 {
        let of = |operand: Operand, times: usize| {
            let (rows, cols) = problem.dims(operand);
            let elements = (rows as u128).saturating_mul(cols as u128);
            elements.saturating_mul(T::TYPES.of(operand).size() as u128 * times as u128)
        };
        [of(Operand::A, self.sets), of(Operand::B, self.sets), of(Operand::C, self.of_c)]
            .into_iter()
            .fold(self.check.reference_bytes(problem), u128::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::Distribution;

    #[test]
    fn c_is_drawn_where_it_is_read_or_asked_for() {
        let draw = Draw { distribution: Distribution::Int, seed: 1, stream: 0, what: "an operand" };
        let (plain, adding) =
            (Problem::<f32>::new(2, 3, 4), Problem::<f32>::new(2, 3, 4).with_scalars(1.0, 2.0));
        let lens = |inputs: &Inputs<f32>| [inputs.a.len(), inputs.b.len(), inputs.c.len()];
        assert_eq!(lens(&Inputs::that_are_read(&plain, draw).unwrap()), [8, 12, 0]);
        assert_eq!(lens(&Inputs::that_are_read(&adding, draw).unwrap()), [8, 12, 6]);
        let all = Inputs::draw(&plain, draw).unwrap();
        assert_eq!((lens(&all), all.old_c(&plain).len()), ([8, 12, 6], 0));
        assert_eq!(all.old_c(&adding).len(), 6);
    }

    #[test]
    fn every_matrix_is_counted() {
        let problem = Problem::<f32>::new(2, 3, 5);
        let room = |check| Room { sets: 2, of_c: 3, check }.bytes(&problem);
        assert_eq!(room(Method::None), 4 * (2 * (10 + 15) + 3 * 6));
        assert_eq!(room(Method::Full), room(Method::None) + 16 * 6);
        let large = Problem::<f64>::new(usize::MAX, usize::MAX, usize::MAX);
        let bytes = Room { sets: 1, of_c: 1, check: Method::Full }.bytes(&large);
        assert_eq!(bytes, u128::MAX);
    }
}

//! Products of views, real and complex, and triangles, against plain loops.

use std::num::NonZeroUsize;

use cpu_gemm::{
    BLOCK, Complex, CpuContext, CpuIsa, Error, Factor, Field, RealNumber as _, Task, TriangleOf,
    View, ViewMut, gemm_symmetric, gemm_triangle, gemm_views, largest_triangle, triangle,
};
use gemm_spec::{Layout, Order};

/// Small integers, of which all sums are exact.
fn element<T: Field>(index: usize) -> T {
    let part = |number: usize| {
        let mut value = T::Real::ZERO;
        for _ in 0..number % 7 {
            value = value + T::Real::ONE;
        }
        value - T::Real::ONE - T::Real::ONE - T::Real::ONE
    };
    match T::IS_COMPLEX {
        true => {
            T::from_re(part(index * 5 + index / 11))
                + imaginary::<T>() * T::from_re(part(index * 3 + 1))
        }
        false => T::from_re(part(index * 5 + index / 11)),
    }
}

/// The root of -1, of complex numbers.
fn imaginary<T: Field>() -> T {
    let any: &dyn std::any::Any = &T::ZERO;
    let number: Box<dyn std::any::Any> = if any.is::<Complex<f32>>() {
        Box::new(Complex::new(0f32, 1.0))
    } else if any.is::<Complex<f64>>() {
        Box::new(Complex::new(0f64, 1.0))
    } else {
        Box::new(T::ZERO)
    };
    *number.downcast().expect("it is of that type")
}

fn layout(order: Order, rows: usize, cols: usize, padding: usize) -> Layout {
    match order {
        Order::RowMajor => Layout::row_major(cols.max(1) + padding),
        Order::ColMajor => Layout::col_major(rows.max(1) + padding),
    }
}

const ORDERS: [Order; 2] = [Order::RowMajor, Order::ColMajor];

fn buffer<T: Field>(rows: usize, cols: usize, layout: Layout, seed: usize) -> Vec<T> {
    let len = layout.ld * if layout.order == Order::RowMajor { rows } else { cols };
    (0..len).map(|at| element(at + seed)).collect()
}

fn contexts() -> Vec<CpuContext> {
    let two = NonZeroUsize::new(2);
    let with = |isa| CpuContext::with_isa(two, isa).expect("threads start");
    CpuIsa::available().map(with).chain([CpuContext::alone()]).collect()
}

/// One product in all orders, conjugated or not, against a plain loop.
fn check<T: Field>(context: &CpuContext, (m, n, k): (usize, usize, usize), alpha: T, beta: T) {
    for case in 0..32 {
        let order = |bit: usize| ORDERS[case >> bit & 1];
        let layouts =
            [layout(order(0), m, k, 1), layout(order(1), k, n, 2), layout(order(2), m, n, 3)];
        let a = buffer::<T>(m, k, layouts[0], 1);
        let b = buffer::<T>(k, n, layouts[1], 2);
        let old = buffer::<T>(m, n, layouts[2], 3);
        let mut c = old.clone();
        let a = Factor {
            view: View::new(&a, m, k, layouts[0]).expect("it fits"),
            conjugated: case & 8 > 0,
        };
        let b = Factor {
            view: View::new(&b, k, n, layouts[1]).expect("it fits"),
            conjugated: case & 16 > 0,
        };
        let view = ViewMut::new(&mut c, m, n, layouts[2]).expect("it fits");
        gemm_views(alpha, a, b, beta, view, context).expect("it fits");
        let mut expected = old.clone();
        for i in 0..m {
            for j in 0..n {
                let sum = (0..k).fold(T::ZERO, |sum, p| sum + a.get(i, p) * b.get(p, j));
                let at = layouts[2].index(i, j);
                let old = if beta == T::ZERO { T::ZERO } else { beta * old[at] };
                expected[at] = alpha * sum + old;
            }
        }
        assert!(c == expected, "{m} {n} {k}, case {case}, {}", std::any::type_name::<T>());
    }
}

fn check_sizes<T: Field>() {
    let two = T::ONE + T::ONE;
    let odd = two + imaginary::<T>();
    for context in contexts() {
        for m in [0, 1, 2, 5, 17, 49] {
            for n in [1, 4, 9, 33] {
                for k in [0, 1, 7, 40] {
                    check(&context, (m, n, k), T::ONE, T::ZERO);
                }
                check(&context, (m, n, 6), two, -T::ONE);
                check(&context, (m, n, 6), odd, -odd);
            }
        }
        check(&context, (50, 45, 1100), -T::ONE, T::ONE);
    }
}

#[test]
fn products_of_views_are_those_of_plain_loops() {
    check_sizes::<f32>();
    check_sizes::<f64>();
}

#[test]
fn complex_products_are_those_of_plain_loops() {
    check_sizes::<Complex<f32>>();
    check_sizes::<Complex<f64>>();
}

/// C beyond a block of columns of the memory that products with factors that are not real are computed in.
#[test]
fn factors_that_are_not_real_are_for_all_of_a_large_c() {
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("it fits");
    let (m, n) = (1 << 14, 150);
    let column: Vec<Complex<f32>> = (0..m).map(element).collect();
    let row: Vec<Complex<f32>> = (0..n).map(|at| element(at + 5)).collect();
    let mut c = vec![Complex::new(f32::NAN, 0.0); m * n];
    let i = Complex::new(0.0, 1.0);
    let a = Factor::plain(View::new(&column, m, 1, Layout::col_major(m)).expect("it fits"));
    let b = Factor::plain(View::new(&row, 1, n, Layout::row_major(n)).expect("it fits"));
    let view = ViewMut::new(&mut c, m, n, Layout::col_major(m)).expect("it fits");
    gemm_views(i, a, b, Complex::ZERO, view, &context).expect("it fits");
    for (at, &found) in c.iter().enumerate() {
        assert_eq!(found, i * (column[at % m] * row[at / m]), "{at}");
    }
}

#[test]
fn what_alpha_and_beta_hide_is_not_read() {
    let context = CpuContext::alone();
    let (n, nan) = (20, Complex::new(f64::NAN, f64::NAN));
    let nans = vec![nan; n * n];
    let ones = vec![Complex::new(1.0, 0.0); n * n];
    let layout = Layout::col_major(n);
    let factor = |of| Factor::plain(View::new(of, n, n, layout).expect("it fits"));
    for beta in [Complex::ZERO, Complex::new(0.0, 2.0)] {
        let mut c = if beta == Complex::ZERO { nans.clone() } else { ones.clone() };
        let view = ViewMut::new(&mut c, n, n, layout).expect("it fits");
        gemm_views(Complex::ZERO, factor(&nans), factor(&nans), beta, view, &context)
            .expect("it fits");
        assert!(c.iter().all(|&c| c == beta), "{c:?}");
    }
    for alpha in [Complex::new(2.0, 0.0), Complex::new(0.0, 2.0)] {
        let mut c = nans.clone();
        let view = ViewMut::new(&mut c, n, n, layout).expect("it fits");
        gemm_views(alpha, factor(&ones), factor(&ones), Complex::ZERO, view, &context)
            .expect("it fits");
        assert!(c.iter().all(|&c| c == alpha * 20.0), "{c:?}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let (data, mut c) = ([0f32; 6], [7f32; 4]);
    let a = Factor::plain(View::new(&data, 2, 3, Layout::row_major(3)).expect("it fits"));
    let view = ViewMut::new(&mut c, 2, 2, Layout::row_major(2)).expect("it fits");
    let refused = gemm_views(1.0, a, a, 0.0, view, &CpuContext::alone());
    assert!(matches!(refused, Err(Error::Sizes { .. })));
    assert_eq!(c, [7.0; 4]);
}

/// Triangles against their definition: what a solve gives, multiplied, is what it was given.
fn check_triangles<T: Field>() {
    let four = T::ONE + T::ONE + T::ONE + T::ONE;
    for context in contexts() {
        // Of one block, and of several: right-hand sides that are packed for, and some that are not.
        let of_a_block = [(1, 1), (2, 3), (5, 40), (BLOCK, 70), (BLOCK - 1, 600)];
        let largest = largest_triangle::<T>();
        let of_several = [(BLOCK + 1, 3), (2 * BLOCK, 40), (3 * BLOCK + 5, 201), (largest, 165)];
        let fits = |&(n, _): &(usize, usize)| n <= largest;
        for (n, cols) in of_a_block.into_iter().chain(of_several.into_iter().filter(fits)) {
            for case in 0..32 {
                let (order, upper, unit) = (ORDERS[case & 1], case & 2 > 0, case & 4 > 0);
                let (conjugated, a_order) = (case & 8 > 0, ORDERS[case >> 4 & 1]);
                // A power of two on the diagonal and integers beside it: all that follows is exact.
                let a_layout = layout(a_order, n, n, 1);
                let mut a = buffer::<T>(n, n, a_layout, 0);
                for i in 0..n {
                    for p in 0..n {
                        let read = if upper { p > i } else { p < i };
                        let far = i.abs_diff(p) > 2;
                        let value = if i == p { four } else { element::<T>(i * 7 + p) };
                        let nan = T::ZERO.divide(T::ZERO);
                        a[a_layout.index(i, p)] = match (read, i == p) {
                            (true, _) if far => T::ZERO,
                            (true, _) => value,
                            (false, true) if !unit => value,
                            (false, _) => nan,
                        };
                    }
                }
                let layout = layout(order, n, cols, 2);
                let given = buffer::<T>(n, cols, layout, 9);
                let a =
                    Factor { view: View::new(&a, n, n, a_layout).expect("it fits"), conjugated };
                let mut b = given.clone();
                let view = ViewMut::new(&mut b, n, cols, layout).expect("it fits");
                let task = Task { solve: false, upper, unit };
                triangle(task, four, a, view, &context).expect("it fits");
                let mut expected = given.clone();
                for i in 0..n {
                    for j in 0..cols {
                        let of = |p: usize| given[layout.index(p, j)];
                        let mut sum = if unit { of(i) } else { four * of(i) };
                        for p in if upper { i + 1..n } else { 0..i } {
                            sum = sum + a.get(i, p) * of(p);
                        }
                        expected[layout.index(i, j)] = four * sum;
                    }
                }
                let name = std::any::type_name::<T>();
                assert!(b == expected, "{n} by {cols}, case {case}, {name}");
                // Substitution takes back what multiplication did.
                let view = ViewMut::new(&mut b, n, cols, layout).expect("it fits");
                triangle(Task { solve: true, ..task }, T::ONE, a, view, &context).expect("it fits");
                for (found, &given) in b.iter().zip(&given) {
                    assert!(
                        *found == four * given || *found == given,
                        "{n} by {cols}, case {case}"
                    );
                }
                let inside = layout.index(n - 1, cols - 1);
                assert!(b[inside] == four * given[inside], "{n} by {cols}, case {case}, {name}");
            }
        }
    }
}

#[test]
fn triangles_multiply_and_solve() {
    check_triangles::<f32>();
    check_triangles::<f64>();
    check_triangles::<Complex<f32>>();
    check_triangles::<Complex<f64>>();
}

/// A right-hand side of `n` elements has the same bits by itself as beside others, and in either storage order where
/// products have.
fn check_columns<T: Field>(n: usize, in_any_order: bool) {
    let third = T::ONE.divide(T::ONE + T::ONE + T::ONE);
    let cols = 170;
    let square = layout(Order::ColMajor, n, n, 0);
    let mut a: Vec<T> = buffer::<T>(n, n, square, 0).into_iter().map(|it| it * third).collect();
    for i in 0..n {
        a[i * n + i] = T::ONE + T::ONE + T::ONE + third;
    }
    let a = Factor::plain(View::new(&a, n, n, square).expect("it fits"));
    let sides = buffer::<T>(n, cols, layout(Order::ColMajor, n, cols, 0), 5);
    for context in contexts() {
        for case in 0..8 {
            let task = Task { solve: case & 1 > 0, upper: case & 2 > 0, unit: case & 4 > 0 };
            let compute = |b: &mut [T], cols, layout| {
                let view = ViewMut::new(b, n, cols, layout).expect("it fits");
                triangle(task, third, a, view, &context).expect("it fits");
            };
            let [mut alone, mut alone_by_rows, mut beside] = [&sides; 3].map(Clone::clone);
            for column in alone.chunks_exact_mut(n) {
                compute(column, 1, Layout::col_major(n));
            }
            for column in alone_by_rows.chunks_exact_mut(n) {
                compute(column, 1, Layout::row_major(1));
            }
            compute(&mut beside, cols, Layout::col_major(n));
            let element = |at: usize| sides[at % cols * n + at / cols];
            let mut by_rows: Vec<T> = (0..n * cols).map(element).collect();
            compute(&mut by_rows, cols, Layout::row_major(cols));
            for (at, &by_rows) in by_rows.iter().enumerate() {
                let (row, col) = (at / cols, at % cols);
                let of_columns = [&alone, &beside].map(|of| of[col * n + row]);
                let of_rows = [alone_by_rows[col * n + row], by_rows];
                let of = [of_columns, of_rows];
                let is_number = of.as_flattened().iter().any(|it| equal(*it, *it));
                let alike = of.map(|[alone, beside]| alone == beside);
                let in_order = !in_any_order || of_columns == of_rows;
                assert!(
                    !is_number || alike == [true; 2] && in_order,
                    "{task:?}, ({row}, {col}): {of:?}"
                );
            }
        }
    }
}

#[test]
fn right_hand_sides_do_not_depend_on_others() {
    check_columns::<f32>(largest_triangle::<f32>() - 3, true);
    check_columns::<f64>(largest_triangle::<f64>() - 3, true);
    // In products of complex numbers the factors' order decides that of two terms.
    check_columns::<Complex<f64>>(BLOCK - 3, true);
    check_columns::<Complex<f64>>(largest_triangle::<Complex<f64>>() - 3, false);
}

/// What is infinite or NaN in a right-hand side reaches the rows whose elements of the triangle it is multiplied by, and no
/// others: these have the bits that they have beside a zero.
fn check_not_finite<T: Field>(n: usize, cols: usize) {
    let (zero, infinite) = (T::Real::ZERO, T::Real::ONE.divide(T::Real::ZERO));
    let strange = [
        T::from_re(infinite),
        T::from_re(-infinite),
        T::from_re(zero.divide(zero)),
        T::from_parts(infinite, infinite),
    ];
    for case in 0..16 {
        let (order, a_order) = (ORDERS[case & 1], ORDERS[case >> 1 & 1]);
        let task = Task { solve: false, upper: case & 4 > 0, unit: case & 8 > 0 };
        let a_layout = layout(a_order, n, n, 1);
        let mut a = buffer::<T>(n, n, a_layout, 3);
        for i in 0..n {
            for p in 0..n {
                let is_read = if task.upper { p >= i } else { p <= i };
                if !is_read || p == i && task.unit {
                    a[a_layout.index(i, p)] = T::ZERO.divide(T::ZERO);
                }
            }
        }
        let a = Factor::plain(View::new(&a, n, n, a_layout).expect("it fits"));
        let layout = layout(order, n, cols, 2);
        let (mut b, mut without) = (buffer::<T>(n, cols, layout, 9), buffer(n, cols, layout, 9));
        // One number in every third column.
        let place = |col: usize| col.is_multiple_of(3).then_some((col * 7 + 5) % n);
        for col in 0..cols {
            if let Some(row) = place(col) {
                b[layout.index(row, col)] = strange[col / 3 % strange.len()];
                without[layout.index(row, col)] = T::ZERO;
            }
        }
        let given = b.clone();
        for context in contexts() {
            let [mut found, mut beside_zero] = [&b, &without].map(Clone::clone);
            for b in [&mut found, &mut beside_zero] {
                let view = ViewMut::new(b, n, cols, layout).expect("it fits");
                triangle(task, T::ONE, a, view, &context).expect("it fits");
            }
            for row in 0..n {
                for col in 0..cols {
                    let at = layout.index(row, col);
                    let reached =
                        place(col).filter(|&p| if task.upper { row <= p } else { row >= p });
                    let parts = |number: T| [number.re(), number.im()];
                    let expected = reached.map_or(parts(beside_zero[at]), |p| {
                        let value = given[layout.index(p, col)];
                        let by = if task.unit && p == row { value } else { a.get(row, p) * value };
                        parts(beside_zero[at] + by)
                    });
                    let is_right =
                        parts(found[at]).into_iter().zip(expected).all(|(is, should)| {
                            equal(is, should) || !equal(is, is) && !equal(should, should)
                        });
                    let found = found[at];
                    assert!(is_right, "{task:?}, ({row}, {col}): {found:?}, not {expected:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_reaches_its_triangle_alone() {
    check_not_finite::<f32>(BLOCK + 9, 7);
    check_not_finite::<f32>(largest_triangle::<f32>() - 3, 70);
    check_not_finite::<f64>(largest_triangle::<f64>() - 5, 131);
    check_not_finite::<Complex<f32>>(largest_triangle::<Complex<f32>>(), 40);
    check_not_finite::<Complex<f64>>(2 * BLOCK + 1, 65);
}

/// Diagonals whose reciprocals overflow, are subnormal, zero or infinite divide as such.
fn check_extreme_diagonals<T: Field>() {
    let (zero, one) = (T::Real::ZERO, T::Real::ONE);
    let (two, three) = (one + one, one + one + one);
    let tiny = three * T::Real::SAFE_MIN * T::Real::EPSILON;
    let huge = three.divide(T::Real::SAFE_MIN);
    let infinite = one.divide(zero);
    // What is divided, by what, and the quotient.
    let cases = [
        (tiny + tiny, tiny, two),
        (tiny, huge, zero),
        (-huge, huge, -one),
        (one, infinite, zero),
        (one, zero, infinite),
        (three, two, three.divide(two)),
    ];
    let n = cases.len();
    for context in contexts() {
        // Element by element, and in registers of each kernel.
        for cols in [1, 2, 40, 200] {
            // Of real numbers there is no imaginary diagonal.
            for case in 0..if T::IS_COMPLEX { 4 } else { 2 } {
                let (order, imaginary) = (ORDERS[case & 1], case & 2 > 0);
                let of_parts = |number: T::Real| match imaginary {
                    true => T::from_parts(zero, number),
                    false => T::from_re(number),
                };
                let mut a = vec![T::ZERO; n * n];
                for (at, &(_, by, _)) in cases.iter().enumerate() {
                    a[at * n + at] = of_parts(by);
                }
                let a = View::new(&a, n, n, Layout::col_major(n)).expect("it fits");
                let layout = layout(order, n, cols, 0);
                let mut b = vec![T::ZERO; n * cols];
                for (row, &(number, ..)) in cases.iter().enumerate() {
                    for col in 0..cols {
                        b[layout.index(row, col)] = of_parts(number);
                    }
                }
                // One row at a time, so that what is infinite meets no other's zero.
                for row in 0..n {
                    let a = Factor::plain(a.part(row..row + 1, row..row + 1));
                    let b = ViewMut::new(&mut b, n, cols, layout).expect("it fits");
                    let task = Task { solve: true, upper: false, unit: false };
                    let b = b.part(row..row + 1, 0..cols);
                    triangle(task, T::ONE, a, b, &context).expect("it fits");
                }
                for (row, &(number, by, quotient)) in cases.iter().enumerate() {
                    for col in 0..cols {
                        let found = b[layout.index(row, col)];
                        // Complex numbers by a divisor that is not finite, or zero, have parts that are no numbers.
                        let is_number = found.im().is_finite() || by.is_finite() && by != zero;
                        let is_right = found.re() == quotient || !is_number;
                        assert!(is_right, "{number:?} / {by:?}: {found:?}, {cols} columns");
                    }
                }
            }
        }
    }
}

#[test]
fn extreme_diagonals_divide() {
    check_extreme_diagonals::<f32>();
    check_extreme_diagonals::<f64>();
    check_extreme_diagonals::<Complex<f32>>();
    check_extreme_diagonals::<Complex<f64>>();
}

/// A complex number whose imaginary part is NaN, a real number as it is.
fn beside_nan<T: Field>(value: T) -> T {
    let any: &dyn std::any::Any = &value;
    let number: Box<dyn std::any::Any> = match (any.downcast_ref(), any.downcast_ref()) {
        (Some(&Complex { re, .. }), _) => Box::new(Complex::<f32>::new(re, f32::NAN)),
        (_, Some(&Complex { re, .. })) => Box::new(Complex::<f64>::new(re, f64::NAN)),
        (None, None) => Box::new(value),
    };
    *number.downcast().expect("it is of that type")
}

/// Whether numbers are equal, which a NaN is not to itself.
fn equal<T: Field>(one: T, other: T) -> bool {
    one == other
}

/// One triangle of a product has the bits of the whole one, and the other stays as it is, here NaN.
fn check_triangle<T: Field>(context: &CpuContext, (n, k): (usize, usize), alpha: T, beta: T) {
    let third = T::ONE.divide(T::ONE + T::ONE + T::ONE);
    for case in 0..8 {
        let order = |bit: usize| ORDERS[case >> bit & 1];
        let layouts =
            [layout(order(0), n, k, 1), layout(order(1), k, n, 2), layout(order(2), n, n, 3)];
        let with_rounding = |rows, cols, layout, seed| -> Vec<T> {
            buffer::<T>(rows, cols, layout, seed).into_iter().map(|it| it * third).collect()
        };
        let (a, b) = (with_rounding(n, k, layouts[0], 1), with_rounding(k, n, layouts[1], 2));
        let a = Factor {
            view: View::new(&a, n, k, layouts[0]).expect("it fits"),
            conjugated: case & 1 > 0,
        };
        let b = Factor {
            view: View::new(&b, k, n, layouts[1]).expect("it fits"),
            conjugated: case & 2 > 0,
        };
        let old = with_rounding(n, n, layouts[2], 3);
        for (upper, real_diagonal) in [(false, false), (true, false), (false, true), (true, true)] {
            let has = |row: usize, col: usize| if upper { row <= col } else { row >= col };
            let nan = T::ZERO.divide(T::ZERO);
            let (mut c, mut whole) = (old.clone(), old.clone());
            for row in 0..n {
                for col in 0..n {
                    let at = layouts[2].index(row, col);
                    if !has(row, col) {
                        c[at] = nan;
                    } else if real_diagonal && row == col {
                        c[at] = beside_nan(c[at]);
                        whole[at] = T::from_re(whole[at].re());
                    }
                }
            }
            let view = ViewMut::new(&mut whole, n, n, layouts[2]).expect("it fits");
            gemm_views(alpha, a, b, beta, view, context).expect("it fits");
            let view = ViewMut::new(&mut c, n, n, layouts[2]).expect("it fits");
            let of = TriangleOf { upper, real_diagonal };
            let done = gemm_triangle(of, alpha, a, b, beta, view, context).expect("it fits");
            assert!(done);
            for row in 0..n {
                for col in 0..n {
                    let at = layouts[2].index(row, col);
                    let real = real_diagonal && row == col;
                    let expected = if real { T::from_re(whole[at].re()) } else { whole[at] };
                    let right =
                        if has(row, col) { c[at] == expected } else { !equal(c[at], c[at]) };
                    assert!(right, "{n} {k}, case {case}, {of:?}, ({row}, {col}): {:?}", c[at]);
                }
            }
        }
    }
}

fn check_halves<T: Field>() {
    let two = T::ONE + T::ONE;
    for context in contexts() {
        for n in [1, 2, 7, 48, 50, 97] {
            check_triangle(&context, (n, 5), T::ONE, T::ZERO);
            check_triangle(&context, (n, 9), two, -T::ONE);
        }
        // More than one block of k.
        check_triangle(&context, (70, 530), T::ONE, T::ZERO);
        check_triangle(&context, (70, 530), -T::ONE, two);
    }
    // And of rows, since there are two threads.
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    check_triangle(&context, (310, 530), T::ONE, T::ZERO);
    check_triangle(&context, (310, 530), -T::ONE, two);
}

#[test]
fn a_triangle_has_the_bits_of_the_whole() {
    check_halves::<f32>();
    check_halves::<f64>();
}

#[test]
fn a_triangle_of_complex_numbers_has_the_bits_of_the_whole() {
    check_halves::<Complex<f32>>();
    check_halves::<Complex<f64>>();
}

#[test]
fn triangles_that_are_not_computed_are_left_to_the_caller() {
    let context = CpuContext::alone();
    let a = [Complex::new(1f64, 2.0); 4];
    let factor = Factor::plain(View::new(&a, 2, 2, Layout::row_major(2)).expect("it fits"));
    let of = TriangleOf { upper: true, real_diagonal: false };
    let i = Complex::new(0.0, 1.0);
    for (alpha, beta) in [(i, Complex::ONE), (Complex::ONE, i), (Complex::ZERO, Complex::ONE)] {
        let mut c = a;
        let view = ViewMut::new(&mut c, 2, 2, Layout::row_major(2)).expect("it fits");
        let done = gemm_triangle(of, alpha, factor, factor, beta, view, &context).expect("it fits");
        assert!(!done);
        assert_eq!(c, a);
    }
    let mut c = [Complex::new(0f64, 0.0); 6];
    let view = ViewMut::new(&mut c, 2, 3, Layout::row_major(3)).expect("it fits");
    assert!(gemm_triangle(of, i, factor, factor, i, view, &context).is_err());
}

/// A product with one triangle of a symmetric matrix has the bits of the one with the whole of it; what is not read is NaN.
fn check_symmetric<T: Field>(context: &CpuContext, (n, cols): (usize, usize), alpha: T, beta: T) {
    let third = T::ONE.divide(T::ONE + T::ONE + T::ONE);
    for case in 0..32 {
        let order = |bit: usize| ORDERS[case >> bit & 1];
        let (upper, hermitian) = (case & 8 > 0, case & 16 > 0);
        let layouts =
            [layout(order(0), n, n, 1), layout(order(1), n, cols, 2), layout(order(2), n, cols, 3)];
        let mut a = buffer::<T>(n, n, layouts[0], 1);
        let mut whole = a.clone();
        for row in 0..n {
            for col in 0..n {
                let (here, there) = (layouts[0].index(row, col), layouts[0].index(col, row));
                let value = element::<T>(row * 7 + col) * third;
                let real = hermitian && row == col;
                if row == col || (row < col) == upper {
                    a[here] = if real { beside_nan(value) } else { value };
                    whole[here] = if real { T::from_re(value.re()) } else { value };
                    whole[there] = if hermitian { whole[here].conj() } else { whole[here] };
                } else {
                    a[here] = T::ZERO.divide(T::ZERO);
                }
            }
        }
        let b = buffer::<T>(n, cols, layouts[1], 2);
        let old = buffer::<T>(n, cols, layouts[2], 3);
        let of = TriangleOf { upper, real_diagonal: hermitian };
        for conjugated in [(false, false), (true, true)] {
            let of_a = |elements| Factor {
                view: View::new(elements, n, n, layouts[0]).expect("it fits"),
                conjugated: conjugated.0,
            };
            let b = Factor {
                view: View::new(&b, n, cols, layouts[1]).expect("it fits"),
                conjugated: conjugated.1,
            };
            let (mut c, mut expected) = (old.clone(), old.clone());
            let view = ViewMut::new(&mut c, n, cols, layouts[2]).expect("it fits");
            let done = gemm_symmetric(of, alpha, of_a(&a), b, beta, view, context);
            assert!(done.expect("it fits"));
            let view = ViewMut::new(&mut expected, n, cols, layouts[2]).expect("it fits");
            gemm_views(alpha, of_a(&whole), b, beta, view, context).expect("it fits");
            let name = std::any::type_name::<T>();
            assert!(c == expected, "{n} by {cols}, case {case}, {conjugated:?}, {name}");
        }
    }
}

fn check_symmetric_sizes<T: Field>() {
    let two = T::ONE + T::ONE;
    let odd = two + imaginary::<T>();
    for context in contexts() {
        for (n, cols) in [(1, 1), (2, 70), (7, 9), (49, 50), (131, 33)] {
            check_symmetric(&context, (n, cols), two, T::ZERO);
            check_symmetric(&context, (n, cols), odd, -odd);
        }
    }
    // Several blocks of k and of rows.
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    check_symmetric(&context, (530, 40), T::ONE, two);
}

#[test]
fn a_symmetric_factor_has_the_bits_of_the_whole() {
    check_symmetric_sizes::<f32>();
    check_symmetric_sizes::<f64>();
}

#[test]
fn a_hermitian_factor_has_the_bits_of_the_whole() {
    check_symmetric_sizes::<Complex<f32>>();
    check_symmetric_sizes::<Complex<f64>>();
}

//! Who is told what is going on.

/// Who is told how a measurement goes on.
pub trait Observer {
    /// A step has begun, for instance "checking naive".
    fn step(&mut self, what: &str);
}

impl Observer for () {
    fn step(&mut self, _: &str) {}
}

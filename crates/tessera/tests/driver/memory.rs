//! Operands of the tests in device memory.

use cuda_lazy::DeviceMemory;
use gemm_spec::Convert;
use tessera::gpu::{Context, Plan, Workspace};

/// Device memory with those bytes.
pub(crate) struct Bytes(pub(crate) DeviceMemory);

impl Bytes {
    pub(crate) fn of<E: tessera::Element>(context: &Context, data: &[E]) -> Self {
        let mut memory = Self::unwritten(context, size_of_val(data));
        if !data.is_empty() {
            memory.0.write(0, as_bytes(data)).unwrap();
            // A copy from pageable memory may still be on its way.
            context.synchronize().unwrap();
        }
        memory
    }

    pub(crate) fn unwritten(context: &Context, bytes: usize) -> Self {
        Self(DeviceMemory::new(context.driver_context(), bytes).unwrap())
    }

    pub(crate) fn at(&self) -> u64 {
        self.0.address()
    }

    pub(crate) fn workspace(context: &Context, plan: &Plan) -> (Self, Workspace) {
        let memory = Self::unwritten(context, usize::try_from(plan.workspace_bytes()).unwrap());
        let workspace = Workspace { address: memory.at(), bytes: memory.0.len() as u64 };
        (memory, workspace)
    }

    pub(crate) fn read<E: tessera::Element>(&self, len: usize) -> Vec<E> {
        let mut data = vec![E::ZERO; len];
        // SAFETY: plain numbers, any bytes of which are a value.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), size_of_val(&*data))
        };
        self.0.read(0, bytes).unwrap();
        data
    }
}

pub(crate) fn as_bytes<E: tessera::Element>(data: &[E]) -> &[u8] {
    // SAFETY: plain numbers without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Small whole numbers that depend on where they are: sums of their products are exact in any order.
pub(crate) fn numbers<E: Convert<Acc>, Acc>(
    len: usize,
    seed: usize,
    of: impl Fn(i32) -> Acc,
) -> Vec<E> {
    let value = |at: usize| i32::try_from((at * 7 + seed * 3 + at / 5) % 7).expect("below 7") - 3;
    (0..len).map(|at| E::narrow(of(value(at)))).collect()
}

/// A whole number of a sums' type.
pub(crate) fn whole<Acc: tessera::Element>(value: i32) -> Acc {
    let found: [Box<dyn std::any::Any>; 3] =
        [Box::new(value as f32), Box::new(f64::from(value)), Box::new(value)];
    *found.iter().find_map(|one| one.downcast_ref::<Acc>()).expect("a type of sums")
}

/// The same of one in f64.
pub(crate) fn scalar<Acc: tessera::Element>(value: f64) -> Acc {
    let found = (-9..9).find(|&whole| f64::from(whole) == value);
    whole(found.expect("a small whole number"))
}

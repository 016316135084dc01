//! Launches with attributes: clusters, and overlap with the launch before.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::{RawLaunchAttribute, RawLaunchConfig};
use crate::error::DriverError;
use crate::{Driver, RawFunction, RawStream, raw};

/// The shape of a launch and what it asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
    /// The stream; null is the default stream.
    pub stream: RawStream,
    /// Blocks of a cluster in x, y and z; `None` leaves it to the kernel's own `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// Whether the kernel may start before the kernel ahead of it in the stream ends. It must then
    /// wait by itself (`griddepcontrol.wait`) before it reads what that kernel writes.
    pub programmatic_stream_serialization: bool,
}

impl LaunchConfig {
    /// A launch of `grid` blocks of `block` threads on the default stream, with nothing special.
    #[must_use]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            stream: ptr::null_mut(),
            cluster: None,
            programmatic_stream_serialization: false,
        }
    }

    /// The attributes that it needs, and how many of them count.
    fn attributes(&self) -> ([RawLaunchAttribute; 2], u8) {
        let mut list = [RawLaunchAttribute::IGNORE; 2];
        let mut used = 0_u8;
        if let Some([x, y, z]) = self.cluster {
            list[usize::from(used)] = RawLaunchAttribute::new(CLUSTER_DIMENSION, [x, y, z]);
            used += 1;
        }
        if self.programmatic_stream_serialization {
            list[usize::from(used)] =
                RawLaunchAttribute::new(PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0, 0]);
            used += 1;
        }
        (list, used)
    }

    /// The driver's form of this launch, which points to the first `used` of `attributes`.
    fn to_raw(self, attributes: &mut [RawLaunchAttribute; 2], used: u8) -> RawLaunchConfig {
        RawLaunchConfig {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            stream: self.stream,
            attributes: attributes.as_mut_ptr(),
            attribute_count: used.into(),
        }
    }
}

impl Driver {
    /// `cuLaunchKernelEx`: queues a launch. Without attributes it is `cuLaunchKernel`, which drivers
    /// older than CUDA 12 have too. The launch is asynchronous: a fault of the kernel shows in a later
    /// call.
    ///
    /// # Errors
    /// What the driver answers, for instance where the shape does not fit the kernel or the device.
    ///
    /// # Safety
    /// 1. `function` belongs to a loaded module of the current context, and `config.stream` to that
    ///    context.
    /// 2. `arguments` has one pointer for each of the kernel's parameters, in order, each to a value
    ///    of that parameter's size and alignment. The values are copied before this returns.
    /// 3. What the kernel does with its arguments at this shape is sound: that is the kernel's own
    ///    contract.
    pub unsafe fn launch_kernel_ex(
        &self,
        function: RawFunction,
        config: &LaunchConfig,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        let (mut attributes, used) = config.attributes();
        let arguments = arguments.as_mut_ptr();
        if used == 0 {
            let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
            // SAFETY: (1) and (2) are what the driver asks of these handles and pointers.
            let code = unsafe {
                raw::cuLaunchKernel(
                    self.table(),
                    function,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    config.shared_bytes,
                    config.stream,
                    arguments,
                    ptr::null_mut(),
                )
            };
            return self.check("cuLaunchKernel", code);
        }
        let raw_config = config.to_raw(&mut attributes, used);
        // SAFETY: (1) and (2) as above; the configuration and the attributes it points to are locals
        // that outlive the call, and the driver keeps no pointer to them.
        let code = unsafe {
            raw::cuLaunchKernelEx(self.table(), &raw_config, function, arguments, ptr::null_mut())
        };
        self.check("cuLaunchKernelEx", code)
    }

    /// `cuOccupancyMaxActiveClusters`: how many clusters of this launch the device holds at once;
    /// 0 says that the launch would fail.
    ///
    /// # Errors
    /// What the driver answers, for instance where the device has no clusters.
    ///
    /// # Safety
    /// `function` belongs to a loaded module of the current context, and `config.stream` to that
    /// context.
    pub unsafe fn max_active_clusters(
        &self,
        function: RawFunction,
        config: &LaunchConfig,
    ) -> Result<u32, DriverError> {
        let (mut attributes, used) = config.attributes();
        let raw_config = config.to_raw(&mut attributes, used);
        let mut clusters = 0;
        // SAFETY: the handles are valid by the contract; the count, the configuration and its
        // attributes are locals that outlive the call.
        let code = unsafe {
            raw::cuOccupancyMaxActiveClusters(self.table(), &mut clusters, function, &raw_config)
        };
        self.check("cuOccupancyMaxActiveClusters", code)?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: c_int = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const PROGRAMMATIC_STREAM_SERIALIZATION: c_int = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_only_those_asked_for() {
        let plain = LaunchConfig::new([1, 2, 3], [4, 5, 6]);
        assert_eq!(plain.attributes().1, 0);

        let both = LaunchConfig {
            cluster: Some([2, 1, 1]),
            programmatic_stream_serialization: true,
            ..plain
        };
        let (list, used) = both.attributes();
        assert_eq!(used, 2);
        assert_eq!((list[0].id, &list[0].value[..4]), (CLUSTER_DIMENSION, &[2, 1, 1, 0][..]));
        assert_eq!((list[1].id, list[1].value[0]), (PROGRAMMATIC_STREAM_SERIALIZATION, 1));
    }
}

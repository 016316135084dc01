//! Which thread this is, and the barrier of its block.

/// Defines a function that reads one special register.
macro_rules! special_register {
    ($(#[$doc:meta])* $name:ident, $intrinsic:ident, $field:ident . $axis:tt) => {
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: reading a special register has no precondition on the device.
                unsafe { core::arch::nvptx::$intrinsic() as u32 }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                crate::emulate::current().$field.$axis
            }
        }
    };
}

special_register!(/// `%tid.x`
    thread_idx_x, _thread_idx_x, thread_idx.0);
special_register!(/// `%tid.y`
    thread_idx_y, _thread_idx_y, thread_idx.1);
special_register!(/// `%tid.z`
    thread_idx_z, _thread_idx_z, thread_idx.2);
special_register!(/// `%ctaid.x`
    block_idx_x, _block_idx_x, block_idx.0);
special_register!(/// `%ctaid.y`
    block_idx_y, _block_idx_y, block_idx.1);
special_register!(/// `%ctaid.z`
    block_idx_z, _block_idx_z, block_idx.2);
special_register!(/// `%ntid.x`
    block_dim_x, _block_dim_x, block_dim.0);
special_register!(/// `%ntid.y`
    block_dim_y, _block_dim_y, block_dim.1);
special_register!(/// `%ntid.z`
    block_dim_z, _block_dim_z, block_dim.2);
special_register!(/// `%nctaid.x`
    grid_dim_x, _grid_dim_x, grid_dim.0);
special_register!(/// `%nctaid.y`
    grid_dim_y, _grid_dim_y, grid_dim.1);
special_register!(/// `%nctaid.z`
    grid_dim_z, _grid_dim_z, grid_dim.2);

/// The thread's place in a one-dimensional grid.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// The thread's place (x, y) in a two-dimensional grid.
#[inline(always)]
#[must_use]
pub fn index_2d() -> (u32, u32) {
    (index_1d(), block_idx_y() * block_dim_y() + thread_idx_y())
}

/// Waits until every thread of the block is here: `bar.sync 0`.
///
/// What any of them wrote to shared or global memory before is visible to all of them after.
///
/// # Safety
/// Every thread of the block reaches the same barriers in the same order.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller promises that all threads of the block get here.
        unsafe { core::arch::nvptx::_syncthreads() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        crate::emulate::barrier();
    }
}

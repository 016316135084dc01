//! A driver for tests on machines without a GPU, and memory and streams of it for the tests' own arrays.

use cuda_lazy::{CaptureMode, Context, DeviceMemory, DriverError, Graph, Stream};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

fn refused(error: DriverError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Device memory.
#[pyclass(unsendable)]
struct Memory {
    memory: DeviceMemory,
}

#[pymethods]
impl Memory {
    #[getter]
    fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Writes its bytes, now.
    fn write(&mut self, bytes: &[u8]) -> PyResult<()> {
        self.memory.write(0, bytes).map_err(refused)
    }

    /// Reads its bytes, as they are now.
    fn read(&self) -> PyResult<Vec<u8>> {
        let mut bytes = vec![0; self.memory.len()];
        self.memory.read(0, &mut bytes).map_err(refused)?;
        Ok(bytes)
    }
}

/// A stream.
#[pyclass(unsendable, name = "Stream")]
struct OwnStream {
    stream: Stream,
}

#[pymethods]
impl OwnStream {
    #[getter]
    fn handle(&self) -> usize {
        self.stream.as_raw().addr()
    }

    /// Queues that bytes get a value.
    fn fill(&self, memory: &Memory, value: u8) -> PyResult<()> {
        let (at, bytes) = (memory.memory.address(), memory.memory.len());
        // SAFETY: the bytes of device memory, which tests keep until the stream was waited for.
        unsafe { self.stream.fill(at, value, bytes) }.map_err(refused)
    }

    fn synchronize(&self) -> PyResult<()> {
        self.stream.synchronize().map_err(refused)
    }

    /// What a call gives the stream, to be launched later.
    fn capture(&self, call: &Bound<'_, PyAny>) -> PyResult<Captured> {
        let mut called = Ok(());
        let (context, stream) = (self.stream.context(), self.stream.as_raw());
        // SAFETY: the stream is of that context; tests give it nothing else meanwhile, and keep their arrays.
        let graph = unsafe {
            Graph::capture::<DriverError>(context, stream, CaptureMode::ThreadLocal, || {
                called = call.call0().map(drop);
                Ok(())
            })
        };
        called?;
        Ok(Captured { graph: graph.map_err(refused)? })
    }
}

/// A graph.
#[pyclass(unsendable)]
struct Captured {
    graph: Graph,
}

#[pymethods]
impl Captured {
    fn launch(&self, stream: &OwnStream) -> PyResult<()> {
        // SAFETY: the stream is of the graph's context; tests keep the arrays.
        unsafe { self.graph.launch(stream.stream.as_raw()) }.map_err(refused)
    }
}

/// The primary context of a device.
fn context(device: u32) -> PyResult<Context> {
    let driver = cuda_emulated::install();
    driver.init().map_err(refused)?;
    let device = driver.device(device).map_err(refused)?;
    Context::primary(driver, device).map_err(refused)
}

/// The driver in the place of libcuda, for the whole process.
#[pymodule(submodule, gil_used = true)]
pub(crate) mod emulated {
    use super::{Memory, OwnStream, context, refused};
    use crate::device::PreparedMatrix;
    use cuda_lazy::{DeviceMemory, Stream};
    use pyo3::prelude::*;

    /// Bytes of a device's memory.
    #[pyfunction]
    fn allocate(device: u32, bytes: usize) -> PyResult<Memory> {
        let memory = DeviceMemory::new(&context(device)?, bytes).map_err(refused)?;
        Ok(Memory { memory })
    }

    /// A new stream of a device.
    #[pyfunction]
    fn stream(device: u32) -> PyResult<OwnStream> {
        Ok(OwnStream { stream: Stream::new(&context(device)?).map_err(refused)? })
    }

    /// Does all that was queued on a device.
    #[pyfunction]
    fn synchronize(device: u32) -> PyResult<()> {
        context(device)?.synchronize().map_err(refused)
    }

    /// How often a function of the driver was called.
    #[pyfunction]
    fn count(name: &str) -> usize {
        cuda_emulated::count(name)
    }

    /// What programs did that they must not.
    #[pyfunction]
    fn faults() -> Vec<String> {
        cuda_emulated::faults()
    }

    /// A prepared matrix of whose limbs there are none: the device has no kernels that multiply them.
    #[pyfunction]
    fn unsplit(array: &Bound<'_, PyAny>, limbs: &str) -> PyResult<PreparedMatrix> {
        PreparedMatrix::unsplit(array, limbs)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        cuda_emulated::install();
        module.add("DEVICES", 2)
    }
}

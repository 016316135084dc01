//! Where figures are kept between runs, and what is wrong with a file that cannot be used.

use std::env;
use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, choose_base_strategy};

use tessera::select::{DeviceModel, FORMAT, Figures};

use crate::gpu::Gpu;
use crate::machine::Machine;

/// The environment variable that names the folder in place of the user's cache folder.
pub const FOLDER_VARIABLE: &str = "TESSERA_CACHE";

/// The file's name in its folder.
const NAME: &str = "figures.json";

/// Bytes of a file of figures, at most; they are some thousands.
const MOST_BYTES: u64 = 1 << 20;

/// What was found where figures are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Figures that can be used.
    Figures(Box<Figures>),
    /// There is no such file.
    Nothing,
    /// There is one, and it cannot be used: why, in one line with its path and the remedy.
    Unusable(String),
}

/// The file that figures are kept in; `None` where the system names no cache folder and
/// [`FOLDER_VARIABLE`] none either.
#[must_use]
pub fn file() -> Option<PathBuf> {
    let folder = match env::var_os(FOLDER_VARIABLE) {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => choose_base_strategy().ok()?.cache_dir().join("tessera"),
    };
    Some(folder.join(NAME))
}

/// Reads a file of figures.
#[must_use]
pub fn read(path: &Path) -> Kept {
    let unusable = |reason: String| {
        let path = path.display();
        Kept::Unusable(format!("{path}: {reason}; run `tessera tune` to measure anew"))
    };
    // A pipe or a device may never end.
    let text = match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => return unusable("is no plain file".to_owned()),
        Ok(there) if there.len() > MOST_BYTES => {
            return unusable(format!(
                "has {} bytes, figures no more than {MOST_BYTES}",
                there.len()
            ));
        }
        Ok(_) => std::fs::read_to_string(path),
        Err(error) => Err(error),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Kept::Nothing,
        Err(error) => return unusable(format!("cannot be read: {error}")),
    };
    // The version first: of another version nothing else is known.
    let value: serde_json::Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => return unusable(format!("is not JSON: {error}")),
    };
    match value.get("format").and_then(|format| format.as_str()) {
        Some(FORMAT) => {}
        Some(other) => return unusable(format!("is `{other}`, this program reads `{FORMAT}`")),
        None => return unusable("does not say its format".to_owned()),
    }
    match serde_json::from_value::<Figures>(value) {
        Ok(figures)
            if figures.cpu.is_sane() && figures.gpu.as_ref().is_none_or(|gpu| gpu.is_sane()) =>
        {
            Kept::Figures(Box::new(figures))
        }
        Ok(_) => unusable("has rates that cannot be".to_owned()),
        Err(error) => unusable(format!("holds no figures: {error}")),
    }
}

/// The figures in the user's file, as they hold for this processor; and in one line why the file is not
/// used, where there is one that cannot be.
#[must_use]
pub fn in_use() -> (Option<Figures>, Option<String>) {
    match file().map_or(Kept::Nothing, |path| read(&path)) {
        Kept::Figures(figures) => (Some(figures.on_processor(&Machine::probe().cpu)), None),
        Kept::Nothing => (None, None),
        Kept::Unusable(reason) => (None, Some(reason)),
    }
}

/// The model of a GPU, with the figures in the user's file where they are of it.
#[must_use]
pub fn device_model(gpu: &Gpu) -> DeviceModel {
    let model = gpu.model().clone();
    match file().map_or(Kept::Nothing, |path| read(&path)) {
        Kept::Figures(figures) => match figures.of_gpu(&gpu.info().name) {
            Some(figures) => model.with_figures(figures),
            None => model,
        },
        Kept::Nothing | Kept::Unusable(_) => model,
    }
}

#[cfg(test)]
mod tests {
    use tessera::select::{CpuFigures, GpuFigures};

    use super::*;

    fn said(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, text).unwrap();
        match read(&path) {
            Kept::Unusable(reason) => {
                assert!(reason.contains("figures.json: ") && !reason.contains('\n'), "{reason}");
                reason
            }
            other @ (Kept::Figures(_) | Kept::Nothing) => panic!("{other:?} of {text}"),
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        assert_eq!(read(&path), Kept::Nothing);
        let figures = Figures {
            format: FORMAT.to_owned(),
            version: "1".to_owned(),
            date: "2026-11-22".to_owned(),
            cpu: CpuFigures { processor: "a CPU".to_owned(), threads: 3, cubes: Vec::new() },
            gpu: Some(GpuFigures::assumed((8, 0))),
        };
        std::fs::write(&path, serde_json::to_string(&figures).unwrap()).unwrap();
        assert_eq!(read(&path), Kept::Figures(Box::new(figures)));
    }

    #[test]
    fn what_cannot_be_used_is_one_line_and_no_panic() {
        assert!(said("").contains("is not JSON"));
        assert!(said("{\"format\": \"tessera-figures").contains("is not JSON"));
        assert!(said("[1, 2]").contains("does not say its format"));
        assert!(said("{\"format\": \"tessera-figures 99\"}").contains("`tessera-figures 99`"));
        assert!(said(&format!("{{\"format\": \"{FORMAT}\"}}")).contains("holds no figures"));
        let way = "{\"copies\": [[4096, -1]], \"bus_rate\": 1}";
        let gpu = format!(
            "{{\"device\": \"\", \"to_device\": {way}, \"from_device\": {way}, \"launch\": 1, \
             \"products\": [], \"kernels\": []}}"
        );
        let cpu = "{\"processor\": \"\", \"threads\": 1, \"cubes\": []}";
        let text = format!(
            "{{\"format\": \"{FORMAT}\", \"version\": \"\", \"date\": \"\", \"cpu\": {cpu}, \
             \"gpu\": {gpu}}}"
        );
        assert!(said(&text).contains("rates that cannot be"));
        for seconds in ["0", "-1", "1e308", "1e-11"] {
            let cube = format!("{{\"dtype\": \"f32\", \"edge\": 1024, \"seconds\": {seconds}}}");
            let cpu = format!("{{\"processor\": \"\", \"threads\": 1, \"cubes\": [{cube}]}}");
            let text = format!(
                "{{\"format\": \"{FORMAT}\", \"version\": \"\", \"date\": \"\", \"cpu\": {cpu}, \
                 \"gpu\": null}}"
            );
            assert!(said(&text).contains("rates that cannot be"), "{seconds}");
        }
    }

    #[test]
    fn a_folder_in_its_place_is_unusable() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Kept::Unusable(_)));
    }

    #[test]
    fn what_would_not_end_is_not_read() {
        let Kept::Unusable(reason) = read(Path::new("/dev/zero")) else { panic!("it was read") };
        assert!(reason.contains("is no plain file"), "{reason}");
        assert!(said(&" ".repeat(2 << 20)).contains("bytes, figures no more than"));
    }
}

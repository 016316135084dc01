//! Files that are replaced at once or not at all, whatever ends the program.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tempfile::NamedTempFile;

/// Links that lead to one another, at most; the kernel's own limit.
const MOST_LINKS: usize = 40;
/// What a plain new file gets; the process's mask takes its share.
const NEW_FILE: u32 = 0o666;

/// A file that is going to be written or replaced.
///
/// Preparing it checks that the place can be written, before any work is done for it. Nothing is left in
/// the folder meanwhile, so a program that is stopped in the midst of its work leaves nothing behind.
///
/// A file that is replaced must be writable itself, and its permissions stay, as if it were written in
/// place. A link stays a link: what it points to is written, whether that is there already or not.
pub(in crate::cli) struct Replacement {
    /// As the user named it.
    path: PathBuf,
    /// The same without links.
    target: PathBuf,
}

impl Replacement {
    /// Prepares to write `path`.
    pub(in crate::cli) fn new(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        ensure!(
            path != Path::new("-"),
            "cannot write -: files are not written to standard output; name a file, or ./- for one \
             of that name"
        );
        let target = without_links(path).with_context(cannot)?;
        match fs::metadata(&target) {
            Ok(there) if there.is_dir() => bail!("{}: it is a folder; name a file", cannot()),
            // A device or a pipe would be replaced by a plain file.
            Ok(there) if !there.is_file() => bail!("{}: it is no plain file; name one", cannot()),
            Ok(_) => drop(OpenOptions::new().write(true).open(&target).with_context(cannot)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(cannot),
        }
        Draft::new(folder(&target))
            .with_context(|| format!("{}: its folder takes no new files", cannot()))?;
        Ok(Self { path: path.to_owned(), target })
    }

    /// Whether both would be one file.
    pub(in crate::cli) fn same_file(&self, path: &Path) -> bool {
        let canonical = |path: &Path| {
            let folder = fs::canonicalize(folder(path)).ok()?;
            Some(folder.join(path.file_name()?))
        };
        without_links(path).is_ok_and(|other| {
            other == self.target
                || canonical(&other).is_some_and(|other| canonical(&self.target) == Some(other))
        })
    }

    /// Puts a file with these bytes in place.
    pub(in crate::cli) fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        self.write_with(|file| Ok(io::Write::write_all(file, bytes)?))
    }

    /// Puts a file in place as soon as `content` has written all of it.
    pub(in crate::cli) fn write_with(
        self,
        content: impl FnOnce(&mut File) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        Draft::new(folder(&self.target))
            .map_err(anyhow::Error::from)
            .and_then(|draft| draft.finish(&self.target, content))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What is being written, beside what it will replace.
enum Draft {
    /// A file without a name: it is gone with the process, however that ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// For file systems that have no such files. Only a kill in the midst of writing leaves it there.
    Named(NamedTempFile),
}

impl Draft {
    fn new(folder: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed(folder) {
            return Ok(Self::Unnamed(file));
        }
        Self::named(folder)
    }

    fn named(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(NEW_FILE);
        Ok(Self::Named(hidden(folder, |name| options.open(name))?))
    }

    fn finish(
        mut self,
        target: &Path,
        content: impl FnOnce(&mut File) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let file = match &mut self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file_mut(),
        };
        inherit(target, file)?;
        content(file)?;
        file.sync_all()?;
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => place(&file, target)?,
            Self::Named(file) => {
                file.persist(target).map_err(|refused| refused.error)?;
            }
        }
        Ok(())
    }
}

/// Makes something under a name that nobody else has.
fn hidden<F>(
    folder: &Path,
    mut make: impl FnMut(&Path) -> io::Result<F>,
) -> io::Result<NamedTempFile<F>> {
    // The library's error says the name as well, which tells a user nothing.
    let mut refused = None;
    let make = |name: &Path| make(name).inspect_err(|error| refused = error.raw_os_error());
    let made = tempfile::Builder::new().prefix(".tessera-").make_in(folder, make);
    made.map_err(|error| refused.map_or(error, io::Error::from_raw_os_error))
}

/// Gives a new file the permissions of the one that it will replace, where there is one.
fn inherit(old: &Path, file: &File) -> io::Result<()> {
    let old = match fs::metadata(old) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    if new.gid() != old.gid() && fchown(file, None, Some(old.gid())).is_err() {
        // What the old group may do was not meant for another one.
        mode &= !0o070;
    }
    if new.uid() != old.uid() {
        // Only a privileged process gives files away; what another one writes is its own.
        let _ = fchown(file, Some(old.uid()), None);
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Where links lead to, also those to a file that is not there yet.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = folder(&path).join(to),
            // No link, or nothing at all.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// A file without a name that can be given one; `None` where the system has no such files.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).mode(NEW_FILE).custom_flags(libc::O_TMPFILE);
    let file = options.open(folder).ok()?;
    // It gets its name through this.
    fs::symlink_metadata(descriptor(&file)).ok()?;
    Some(file)
}

#[cfg(target_os = "linux")]
fn descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name its place.
#[cfg(target_os = "linux")]
fn place(file: &File, target: &Path) -> io::Result<()> {
    match link(file, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        placed => return placed,
    }
    // A link replaces nothing, and a file that has a name does.
    let named = hidden(folder(target), |name| link(file, name))?;
    named.persist(target).map(drop).map_err(|refused| refused.error)
}

/// Gives an open file a name that is free.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    let from = CString::new(descriptor(file))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names end with a zero and live until the call returns; it keeps neither.
    let done = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn listed(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_in_the_folder_until_all_is_written() {
        let folder = tempfile::tempdir().unwrap();
        if unnamed(folder.path()).is_none() {
            return;
        }
        let path = folder.path().join("c");
        for old in [&[][..], &["c"]] {
            let replacement = Replacement::new(&path).unwrap();
            assert_eq!(listed(folder.path()), old);
            let content = |file: &mut File| {
                file.write_all(b"half")?;
                assert_eq!(listed(folder.path()), old);
                Ok(file.write_all(b" and half")?)
            };
            replacement.write_with(content).unwrap();
            assert_eq!(listed(folder.path()), ["c"]);
            assert_eq!(fs::read(&path).unwrap(), b"half and half");
        }
    }

    /// What is written where the file system has no files without a name.
    #[test]
    fn a_named_draft_does_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let write = |bytes: &[u8]| {
            let draft = Draft::named(folder.path()).unwrap();
            draft.finish(&path, |file| Ok(file.write_all(bytes)?)).unwrap();
        };
        write(b"first");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        write(b"second");
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"second".to_vec(), 0o600));
        let draft = Draft::named(folder.path()).unwrap();
        draft.finish(&path, |_| bail!("no content")).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(listed(folder.path()), ["c"]);
    }

    #[test]
    fn permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        fs::write(&path, "old").unwrap();
        for wanted in [0o600, 0o640, 0o755] {
            fs::set_permissions(&path, Permissions::from_mode(wanted)).unwrap();
            Replacement::new(&path).unwrap().write(b"new").unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), wanted));
        }
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        match File::options().write(true).open(&path) {
            // Root may write whatever the permissions say.
            Ok(_) => {
                Replacement::new(&path).unwrap().write(b"root's").unwrap();
                assert_eq!(mode(&path), 0o444);
            }
            Err(_) => {
                let refused = format!("{:#}", Replacement::new(&path).err().unwrap());
                assert!(refused.ends_with("Permission denied (os error 13)"), "{refused}");
                assert_eq!(fs::read(&path).unwrap(), b"new");
            }
        }
    }

    #[test]
    fn every_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("deep")).unwrap();
        symlink("deep/link", path("link")).unwrap();
        symlink("../c", path("deep/link")).unwrap();
        for bytes in [b"made", b"kept"] {
            Replacement::new(&path("link")).unwrap().write(bytes).unwrap();
            assert!(path("link").is_symlink() && path("deep/link").is_symlink());
            assert_eq!(fs::read(path("c")).unwrap(), bytes);
        }
        symlink("loop", path("loop")).unwrap();
        let refused = format!("{:#}", Replacement::new(&path("loop")).err().unwrap());
        assert!(refused.contains("Too many levels of symbolic links"), "{refused}");
        let named = Replacement::new(&path("c")).unwrap();
        assert!(named.same_file(&path("link")) && named.same_file(&path("deep/../c")));
        assert!(!named.same_file(&path("d")));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none/c");
        let refused = format!("{:#}", Replacement::new(&path).err().unwrap());
        let said = "its folder takes no new files: No such file or directory (os error 2)";
        assert_eq!(refused, format!("cannot write {}: {said}", path.display()));
    }
}

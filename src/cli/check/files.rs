//! What `check` reads: files, standard input, and whole folders.

use std::{
    collections::BTreeSet,
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use super::judge::File;

/// The endings of files that are read out of folders.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The text of every file, in the order of the arguments; those of a folder in the order of their paths. Each is read once.
///
/// # Errors
/// In words, where something can't be read, or a folder has nothing to read.
pub fn gather(arguments: &[PathBuf]) -> Result<Vec<File>, String> {
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    for argument in arguments {
        let paths = if argument.is_dir() { inside(argument)? } else { vec![argument.clone()] };
        for path in paths {
            // The same file by another way would seem to be a second policy of the same name.
            if seen.insert(fs::canonicalize(&path).unwrap_or_else(|_| path.clone())) {
                let name = path.display().to_string();
                let text = read(&path).map_err(|error| format!("reading {name}: {}", why(&error)))?;
                files.push(File { name, text });
            }
        }
    }
    Ok(files)
}

/// An error in words that say what to do.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData => "it is not UTF-8 text (`>` in PowerShell writes UTF-16): save it as UTF-8".into(),
        _ => error.to_string(),
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path.as_os_str() != "-" {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map(|_| text)
}

/// The files of a folder and of those in it, without hidden ones. A link to a folder is not followed: it may lead back.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let failed = |error: io::Error| format!("reading the folder {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!("there is no .yaml, .yml or .json file in {} and the folders in it", folder.display()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, arguments: &[&str]) -> Result<Vec<String>, String> {
        let paths: Vec<PathBuf> = arguments.iter().map(|name| folder.join(name)).collect();
        let short = |text: String| text.replace(&format!("{}/", folder.display()), "");
        gather(&paths).map(|files| files.into_iter().map(|file| short(file.name)).collect()).map_err(short)
    }

    #[test]
    fn a_folder_is_read_whole_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in ["all/b.yaml", "all/a.yml", "all/in/c.json", "all/README.md", "all/.git/d.yaml", "all/.e.yaml", "none/f.txt", "g"] {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("..", folder.join("all/in/up")).unwrap();
        std::os::unix::fs::symlink("gone.yaml", folder.join("all/broken.yaml")).unwrap();
        std::os::unix::fs::symlink("../g", folder.join("all/link.yaml")).unwrap();
        let all = ["all/a.yml", "all/b.yaml", "all/in/c.json", "all/link.yaml"].map(str::to_owned).to_vec();
        assert_eq!(names(folder, &["all"]), Ok(all.clone()));
        assert_eq!(names(folder, &["all", "all/b.yaml", "g", "all/in"]), Ok(all), "each once, by whatever way");
        assert_eq!(names(folder, &["g", "all/in"]), Ok(vec!["g".into(), "all/in/c.json".into()]), "a file may have any name");
        assert!(names(folder, &["none"]).unwrap_err().starts_with("there is no .yaml, .yml or .json file in "));
        assert!(names(folder, &["missing.yaml"]).unwrap_err().starts_with("reading missing.yaml: No such file"));
    }
}

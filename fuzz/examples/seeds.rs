//! Writes the seeds of all fuzz targets to `fuzz/corpus`, where `cargo fuzz` looks for them.

use std::fs;
use std::io::Result;
use std::path::Path;

use vireo_fuzz::TARGETS;

fn main() -> Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in &TARGETS {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        let seeds = (target.seeds)();
        for seed in &seeds {
            fs::write(folder.join(&seed.name), &seed.bytes)?;
        }
        println!("{}: {} seeds", folder.display(), seeds.len());
    }
    Ok(())
}

//! Results of benchmarks, of one call before the measurement: compared with `--expected_output`, or printed and written
//! as `--output` says.

use std::io::Write;

use vireo::inference::{Function, Signature};
use vireo::visible_text::visible;

use crate::arguments::BenchmarkArguments;
use crate::confine;
use crate::engine::{Linked, Others, Session, cannot_call};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_aside};
use crate::run::{cannot_write, expected_values};
use crate::tiers;
use crate::values::Datum;
use crate::values::compare::{self, Mismatch};
use crate::values::output::{OutputFiles, check_outputs, write_outputs};

/// The expected results of the only function that is measured, and the files that its results go to.
pub struct Checked {
    expected: Vec<Datum>,
    files: OutputFiles,
}

impl Checked {
    /// Reads the expected results and opens the files of outputs, before the program runs. None if the flags ask for
    /// nothing.
    pub fn read(arguments: &BenchmarkArguments, program: &Linked) -> Result<Option<Checked>, Failure> {
        let BenchmarkArguments { output, expected_output, function, .. } = arguments;
        if output.is_empty() && expected_output.is_empty() {
            return Ok(None);
        }
        let names = function.iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
        if names.len() > 1 {
            let message = "--output and --expected_output are for one function, and several are chosen";
            return Err(Failure::new(Exit::Usage, message));
        }
        let signature = &program.signature(names.first().map(|name| name.as_str()))?;
        let expected = expected_values(signature, expected_output, arguments.program.limits())?;
        let mut files = OutputFiles::default();
        if !output.is_empty() {
            check_outputs(output, signature.results.len()).map_err(|error| cannot_write(signature, error))?;
            if confine::is_wanted(&arguments.program) {
                files = OutputFiles::open(output).map_err(|error| cannot_write(signature, error))?;
            }
        }
        Ok(Some(Checked { expected, files }))
    }

    /// Calls the function once. Whether its results are the expected ones; why not is told.
    pub fn check(
        mut self,
        arguments: &BenchmarkArguments,
        (session, others): (&Session, Option<&Others>),
        function: &Function,
        inputs: Vec<Datum>,
        out: &mut dyn Write,
    ) -> Result<bool, Failure> {
        let signature: &Signature = function.signature();
        let results = tiers::call_all((session, others), function, inputs)?;
        let results = results.map_err(|status| cannot_call(function, status))?;
        let most = usize::try_from(arguments.output_max_element_count).unwrap_or(usize::MAX);
        if !arguments.output.is_empty() {
            let written = write_outputs(&results, &arguments.output, &mut self.files, most, out);
            written.map_err(|error| cannot_write(signature, error))?;
            return Ok(true);
        }
        let Some(Mismatch { report, details }) =
            compare::compare(&self.expected, &results, arguments.comparison.tolerance(), most)
        else {
            return Ok(true);
        };
        print(out, &report)?;
        print_aside(&details);
        print_aside(&format!("{} is not measured: its results are not the expected ones\n", visible(&signature.name)));
        Ok(false)
    }
}

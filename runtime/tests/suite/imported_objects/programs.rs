//! Objects for programs from other libraries: parameters and modules.

use super::*;

impl ParameterProvider for Mock {
    fn notify(&self, signal: ParameterProviderSignal) -> Result<()> {
        self.note(signal);
        Ok(())
    }

    fn query_support(&self, scope: &str) -> bool {
        scope == "mödel"
    }

    fn load(
        &self,
        device: &Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        target_params: BufferParams,
        spans: &[ParameterSpan],
    ) -> Result<Vec<Arc<dyn Buffer>>> {
        self.note((device.id(), queue_affinity, seen(wait), seen(signal), source_scope, target_params, spans));
        Ok(spans.iter().map(|span| buffer(span.key.as_bytes())).collect())
    }

    fn gather(
        &self,
        _device: &Arc<dyn Device>,
        _queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        target_buffer: &Arc<dyn Buffer>,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note((seen(wait), seen(signal), source_scope, bytes(target_buffer), spans));
        buffer_write(&**target_buffer, 0, &[9])
    }

    fn scatter(
        &self,
        _device: &Arc<dyn Device>,
        _queue_affinity: QueueAffinity,
        _wait: &[Timepoint],
        _signal: &[Timepoint],
        source_buffer: &Arc<dyn Buffer>,
        target_scope: &str,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note((bytes(source_buffer), target_scope, spans));
        Err(Status::permission_denied(target_scope))
    }
}

#[test]
fn parameter_providers() {
    alike::<dyn ParameterProvider, _>(
        |mock| mock,
        4,
        |provider| {
            let (device, any, target) = (super::super::device(), QueueAffinity::ANY, buffer(&[1, 2]));
            let span = |key: &str, length| ParameterSpan {
                key: key.to_string(),
                parameter_offset: 1,
                buffer_offset: 2,
                length,
            };
            let spans = [span("weights", 3), span("", u64::MAX)];
            let (wait, signal, params) = (points(&[1]), points(&[2, 3]), BufferParams::default());
            provider.notify(ParameterProviderSignal::LowMemory).unwrap();
            let loaded = provider.load(&device, any, &wait, &signal, "mödel", params, &spans).unwrap();
            provider.gather(&device, any, &[], &signal, "", &target, &spans).unwrap();
            let refused = provider.scatter(&device, any, &[], &[], &target, "x", &[]).unwrap_err().to_string();
            let supported = ["mödel", "other"].map(|scope| provider.query_support(scope));
            let loaded: Vec<_> = loaded.iter().map(bytes).collect();
            (loaded, bytes(&target), refused, supported)
        },
    );
}

impl VmModuleState for Mock {}

#[derive(Debug)]
struct Text(&'static str);

impl VmRef for Text {
    fn type_name(&self) -> &str {
        self.0
    }
}

/// A call of `(i32, !a, !b) -> (i32, !a)`, of which `!b` is null.
#[derive(Debug, Default)]
struct Call {
    words: Mutex<Vec<u64>>,
    refs: Mutex<Vec<Option<String>>>,
}

impl VmCall for Call {
    fn words(&self) -> Vec<u64> {
        vec![1, u64::MAX]
    }

    fn ref_count(&self) -> u64 {
        2
    }

    fn ref_at(&self, index: u64) -> Result<Option<Arc<dyn VmRef>>> {
        match index {
            0 => Ok(Some(Arc::new(Text("a")))),
            1 => Ok(None),
            _ => Err(Status::out_of_range("past the last")),
        }
    }

    fn return_words(&self, words: &[u64]) -> Result<()> {
        self.words.lock().unwrap().extend(words);
        Ok(())
    }

    fn return_ref(&self, value: Option<&Arc<dyn VmRef>>) -> Result<()> {
        self.refs.lock().unwrap().push(value.map(|value| value.type_name().to_string()));
        Ok(())
    }
}

impl VmModule for Mock {
    fn name(&self) -> &str {
        "mock"
    }

    fn signature(&self) -> VmModuleSignature {
        VmModuleSignature { version: 4, export_function_count: 1, ..VmModuleSignature::default() }
    }

    fn dependencies(&self) -> Result<Vec<VmModuleDependency>> {
        let flags = VmModuleDependencyFlags::OPTIONAL;
        Ok(vec![VmModuleDependency { name: "hal".to_string(), minimum_version: 6, flags }])
    }

    fn module_attr(&self, index: u64) -> Result<StringPair> {
        Ok(StringPair { key: "key".to_string(), value: index.to_string() })
    }

    fn lookup_function(&self, linkage: VmFunctionLinkage, name: &str, expected_convention: &str) -> Result<u64> {
        self.note((linkage, name, expected_convention));
        Ok(0)
    }

    fn function(&self, linkage: VmFunctionLinkage, ordinal: u64) -> Result<VmFunctionInfo> {
        self.note((linkage, ordinal));
        Ok(VmFunctionInfo { name: "f".to_string(), calling_convention: "0irr_ir".to_string(), attr_count: 0 })
    }

    fn function_attr(&self, linkage: VmFunctionLinkage, ordinal: u64, index: u64) -> Result<StringPair> {
        self.note((linkage, ordinal, index));
        Err(Status::out_of_range("no attributes"))
    }

    fn alloc_state(&self) -> Result<Arc<dyn VmModuleState>> {
        Ok(Arc::new(Mock::default()))
    }

    fn notify(&self, _state: &Arc<dyn VmModuleState>, signal: VmSignal) -> Result<()> {
        self.note(signal);
        Ok(())
    }

    fn begin_call(
        &self,
        state: &Arc<dyn VmModuleState>,
        ordinal: u64,
        call: &Arc<dyn VmCall>,
    ) -> Result<VmCallOutcome> {
        let any: &dyn Any = &**state;
        assert!(any.is::<Mock>(), "the state is what the module made");
        let refs: Vec<_> = (0..call.ref_count()).map(|index| call.ref_at(index).unwrap()).collect();
        let names: Vec<_> =
            refs.iter().map(|value| value.as_ref().map(|value| value.type_name().to_string())).collect();
        self.note((ordinal, call.words(), names, call.ref_at(2).unwrap_err().to_string()));
        call.return_words(&[7, 8])?;
        call.return_ref(refs[0].as_ref())?;
        call.return_ref(None)?;
        Ok(VmCallOutcome::Returned)
    }
}

#[test]
fn vm_modules() {
    alike::<dyn VmModule, _>(
        |mock| mock,
        5,
        |module| {
            let export = VmFunctionLinkage::Export;
            let state = module.alloc_state().unwrap();
            let ordinal = module.lookup_function(export, "f", "0irr_ir").unwrap();
            let call = Arc::new(Call::default());
            let shared: Arc<dyn VmCall> = call.clone();
            let outcome = module.begin_call(&state, ordinal, &shared).unwrap();
            module.notify(&state, VmSignal::Fork).unwrap();
            let failures = [
                module.function_attr(export, 0, 1).unwrap_err(),
                module.fork_state(&state).unwrap_err(),
                module.resume_call(&state, ordinal, &shared).unwrap_err(),
                module.resolve_import(&state, 0, module, 1).unwrap_err(),
                module.resolve_source_location(export, 0, 4).unwrap_err(),
            ];
            let told = (module.name().to_string(), module.signature(), module.dependencies().unwrap());
            let info = (module.function(export, ordinal).unwrap(), module.module_attr(3).unwrap());
            (told, info, outcome, call, failures.map(|failure| failure.to_string()))
        },
    );
}

//! The roofline of a test: what the model needs, over what this machine was just measured to move and multiply.

use std::sync::atomic::AtomicBool;

use super::row::Test;
use crate::cli::ui::Ui;
use crate::engine::throughput::By;
use crate::engine::{Device, DeviceKind, LoadPlan, bandwidth, placement, throughput};
use crate::error::Result;
use crate::model::gguf::Header;
use crate::model::roofline::{Bound, Limit, Machine, Prompt, Roofline};

pub(super) struct Limits {
    model: Roofline,
    bytes: u64,
    matrices: Vec<throughput::Matrix>,
    /// What was measured, by where and with how many threads.
    measured: Vec<(Option<String>, usize, Machine)>,
    /// It cannot be measured, which was said.
    has_failed: bool,
}

impl Limits {
    pub(super) fn new(header: &Header) -> Self {
        let shape = header.shape();
        let model = Roofline::new(header, &shape);
        let matrices = model.matrices();
        Self { bytes: shape.tensor_bytes, matrices, model, measured: Vec::new(), has_failed: false }
    }

    /// The most that a test could reach; `None` where layers are spread over devices, or where that is not known.
    pub(super) fn of(
        &mut self,
        ui: &mut Ui,
        test: Test,
        plan: &LoadPlan,
        is_whole_on_gpu: bool,
    ) -> Option<Limit> {
        let gpu = gpu(plan);
        if self.has_failed || (gpu.is_some() && !is_whole_on_gpu) {
            return None;
        }
        let brake = ui.brake();
        let mut with = |threads| self.machine(gpu.as_ref(), threads, &brake);
        match with(plan.threads_batch).and_then(|prefill| Ok(prefill.zip(with(plan.threads)?))) {
            Ok(machines) => {
                machines.map(|(prefill, decode)| limit(&self.model, test, plan, &prefill, &decode))
            }
            Err(error) => {
                ui.note(&format!("roofline: not known here: {}", error.message));
                self.has_failed = true;
                None
            }
        }
    }

    fn machine(
        &mut self,
        gpu: Option<&Device>,
        threads: usize,
        brake: &AtomicBool,
    ) -> Result<Option<Machine>> {
        let name = gpu.map(|gpu| gpu.name.clone());
        // Threads of the CPU are of no matter to a GPU.
        let threads = if gpu.is_some() { 1 } else { threads };
        let known = self.measured.iter().find(|(place, count, _)| (place, *count) == (&name, threads));
        if let Some((.., machine)) = known {
            return Ok(Some(machine.clone()));
        }
        let bytes = bandwidth::measure(gpu, threads, self.bytes, brake)?;
        let throughput = throughput::measure(gpu, threads, &self.matrices, By::Batch, brake)?;
        // Matrices that stay in a cache are not to be had on a GPU, whose memory is what binds.
        let one = match gpu {
            Some(_) => throughput.clone(),
            None => throughput::measure(gpu, threads, &self.matrices, By::One, brake)?,
        };
        let (Some(bytes), Some(throughput), Some(one)) = (bytes, throughput, one) else { return Ok(None) };
        let machine = Machine { bytes: bytes.bytes_per_second, throughput, one };
        self.measured.push((name, threads, machine.clone()));
        Ok(Some(machine))
    }
}

/// The GPU that holds the model, if one does.
fn gpu(plan: &LoadPlan) -> Option<Device> {
    if !placement::uses_gpu(plan.device.as_deref(), plan.gpu_layers) {
        return None;
    }
    let is_meant = |d: &Device| plan.device.as_deref().is_none_or(|wanted| d.is_called(wanted));
    placement::devices().into_iter().find(|d| d.kind == DeviceKind::Gpu && is_meant(d))
}

fn limit(model: &Roofline, test: Test, plan: &LoadPlan, prefill: &Machine, decode: &Machine) -> Limit {
    let (depth, prompt, generated) =
        (u64::from(test.depth), u64::from(test.prompt), u64::from(test.generated));
    let mut parts = Vec::new();
    if prompt > 0 {
        let work = Prompt { tokens: prompt, depth, micro_batch: plan.ubatch.into() };
        let limit = model.prefill_limit(work, plan.kv, prefill);
        parts.push((test.prompt, limit));
    }
    if generated > 0 {
        // The tokens see more and more: on average what lies in the middle.
        let middle = depth + prompt + generated / 2;
        parts.push((test.generated, model.decode_limit(middle, plan.kv, decode)));
    }
    let seconds = |(tokens, limit): &(u32, Limit)| f64::from(*tokens) / limit.tokens_per_second;
    let all: f64 = parts.iter().map(seconds).sum();
    let longest = parts.iter().max_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    let bound = longest.map_or(Bound::Bandwidth, |(_, limit)| limit.bound);
    Limit { tokens_per_second: (f64::from(test.prompt) + f64::from(test.generated)) / all, bound }
}

#[cfg(test)]
mod tests {
    use super::super::row::Kind;
    use super::*;
    use crate::engine::KvType;
    use crate::engine::throughput::Throughput;
    use crate::model::gguf::tiny_gguf::Tiny;

    fn machine(bytes: f64, flops: f64) -> Machine {
        let throughput = Throughput::new(vec![(0, flops)]);
        Machine { bytes, one: throughput.clone(), throughput }
    }

    #[test]
    fn an_answer_takes_the_time_of_its_parts() {
        let header = Header::from_bytes(&Tiny::llama().bytes()).unwrap();
        let model = Roofline::new(&header, &header.shape());
        let plan = LoadPlan::on_cpu(64, KvType::F16, 1);
        let machine = machine(1e9, 1e9);
        let seconds = |kind, prompt, generated, depth| {
            let limit = limit(&model, Test { kind, prompt, generated, depth }, &plan, &machine, &machine);
            (f64::from(prompt) + f64::from(generated)) / limit.tokens_per_second
        };
        let whole = seconds(Kind::Answer, 32, 8, 0);
        let parts = seconds(Kind::Prefill, 32, 0, 0) + seconds(Kind::Decode, 0, 8, 32);
        assert!((whole / parts - 1.0).abs() < 1e-9, "{whole} {parts}");
    }

    #[test]
    fn what_is_scarce_binds() {
        let header = Header::from_bytes(&Tiny::llama().bytes()).unwrap();
        let model = Roofline::new(&header, &header.shape());
        let plan = LoadPlan::on_cpu(64, KvType::F16, 1);
        let test = Test { kind: Kind::Prefill, prompt: 32, generated: 0, depth: 0 };
        for (bytes, flops, bound) in [(1.0, 1e9, Bound::Bandwidth), (1e9, 1.0, Bound::Compute)] {
            let machine = machine(bytes, flops);
            assert_eq!(limit(&model, test, &plan, &machine, &machine).bound, bound);
        }
    }
}

package cs336.distributed.collectives;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NativeCache;
import cs336.torch.NativeEnvironment;
import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.global.torch_nccl;
import org.bytedeco.pytorch.nccl.ProcessGroupNCCL;

/** NCCL's side of a process group. */
final class Nccl {
    private Nccl() {}

    /** Connects this rank's card with the others'; lives until it is closed. */
    static ProcessGroupNCCL connect(Rendezvous meeting, Device device) {
        NativeCache.load(torch_nccl.class);
        // After a timeout the process ends at once, rather than after a minute in which other ranks' traces are
        // gathered.
        NativeEnvironment.setDefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
        NativeEnvironment.setDefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1");
        World world = meeting.world();
        device.makeCurrent();
        try (var scope = MemoryScope.open()) {
            var options = ProcessGroupNCCL.Options.create();
            options.timeout(Rendezvous.milliseconds(meeting.timeout()));
            var group = MemoryScope.keep(new ProcessGroupNCCL(meeting.store(), world.rank(), world.size(), options));
            group.setBoundDeviceId(new DeviceOptional(device.toTorch()));
            group.eagerConnectSingleDevice(device.toTorch());
            return group;
        }
    }
}

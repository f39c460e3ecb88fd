package cs336.distributed.collectives;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.NativeCache;
import cs336.torch.NativeEnvironment;
import org.bytedeco.pytorch.DeviceOptional;
import org.bytedeco.pytorch.global.torch_nccl;
import org.bytedeco.pytorch.nccl.ProcessGroupNCCL;

/** A factory of c10d process groups with NCCL. */
final class Nccl {
    private Nccl() {}

    /** Connects this rank's GPU to those of all other ranks. The caller closes the group. */
    static ProcessGroupNCCL connect(Rendezvous rendezvous, Device device) {
        NativeCache.load(torch_nccl.class);
        // After a timeout, end the process at once; c10d would first wait a minute for other ranks' traces.
        NativeEnvironment.setDefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
        NativeEnvironment.setDefault("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1");
        device.makeCurrent();
        try (var scope = MemoryScope.open()) {
            var options = ProcessGroupNCCL.Options.create();
            options.timeout(Rendezvous.milliseconds(rendezvous.timeout()));
            var group = MemoryScope.keep(new ProcessGroupNCCL(
                    rendezvous.store(), rendezvous.rank(), rendezvous.members().size(), options));
            group.setBoundDeviceId(new DeviceOptional(device.toTorch()));
            group.eagerConnectSingleDevice(device.toTorch());
            return group;
        }
    }
}

package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.Device;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NvLinkBytesTest {
    private static final String GPU = "GPU 0: NVIDIA H200 (UUID: GPU-0)\n";
    private static final String LINK_0 = """
            \t Link 0: Data Tx: 21248296 KiB
            \t Link 0: Data Rx: 17792907 KiB
            """;
    private static final String LINK_1 = """
            \t Link 1: Data Tx: 5 KiB
            \t Link 1: Data Rx: 7 KiB
            """;

    @Test
    void bytesSentOverAllLinksAreSummed() {
        assertEquals(OptionalLong.of(21248296L * 1024), NvLinkBytes.sent(GPU + LINK_0));
        assertEquals(OptionalLong.of((21248296L + 5) * 1024), NvLinkBytes.sent(GPU + LINK_0 + LINK_1));
        assertEquals(OptionalLong.of(0), NvLinkBytes.sent(GPU + LINK_0.replaceAll("\\d{8}", "0")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                GPU,
                LINK_0,
                GPU + LINK_1,
                GPU + LINK_0 + GPU + LINK_0,
                GPU + LINK_0 + "\t Link 1: Data Tx: 5 KiB\n",
                GPU + "\t Link 0: Data Tx: N/A\n\t Link 0: Data Rx: N/A\n",
                GPU + "\t Link 0: Data Tx: 5 MiB\n\t Link 0: Data Rx: 7 MiB\n",
                GPU + "\t Link 0: Data Rx: 7 KiB\n\t Link 0: Data Tx: 5 KiB\n",
                GPU + "\t Link 0: Raw Tx: 5 KiB\n\t Link 0: Raw Rx: 7 KiB\n",
                GPU + "\t Link 0: Data Tx: -5 KiB\n\t Link 0: Data Rx: 7 KiB\n",
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
                "No devices were found\n"
            })
    void otherOutputIsEmpty(String output) {
        assertEquals(OptionalLong.empty(), NvLinkBytes.sent(output));
    }

    @Test
    void theCpuHasNoLinks() {
        assertEquals(OptionalLong.empty(), NvLinkBytes.sent(Device.cpu()));
    }
}

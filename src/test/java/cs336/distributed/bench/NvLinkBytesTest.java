package cs336.distributed.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cs336.torch.Device;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NvLinkBytesTest {
    private static final String CARD = "GPU 0: NVIDIA H200 (UUID: GPU-0)\n";
    private static final String LINK_0 = """
            \t Link 0: Data Tx: 21248296 KiB
            \t Link 0: Data Rx: 17792907 KiB
            """;
    private static final String LINK_1 = """
            \t Link 1: Data Tx: 5 KiB
            \t Link 1: Data Rx: 7 KiB
            """;

    @Test
    void whatAllLinksOfTheCardSentIsAddedUp() {
        assertEquals(OptionalLong.of(21248296L * 1024), NvLinkBytes.sent(CARD + LINK_0));
        assertEquals(OptionalLong.of((21248296L + 5) * 1024), NvLinkBytes.sent(CARD + LINK_0 + LINK_1));
        assertEquals(OptionalLong.of(0), NvLinkBytes.sent(CARD + LINK_0.replaceAll("\\d{8}", "0")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                CARD,
                LINK_0,
                CARD + LINK_1,
                CARD + LINK_0 + CARD + LINK_0,
                CARD + LINK_0 + "\t Link 1: Data Tx: 5 KiB\n",
                CARD + "\t Link 0: Data Tx: N/A\n\t Link 0: Data Rx: N/A\n",
                CARD + "\t Link 0: Data Tx: 5 MiB\n\t Link 0: Data Rx: 7 MiB\n",
                CARD + "\t Link 0: Data Rx: 7 KiB\n\t Link 0: Data Tx: 5 KiB\n",
                CARD + "\t Link 0: Raw Tx: 5 KiB\n\t Link 0: Raw Rx: 7 KiB\n",
                CARD + "\t Link 0: Data Tx: -5 KiB\n\t Link 0: Data Rx: 7 KiB\n",
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
                "No devices were found\n"
            })
    void whatIsNotOneCardsCountersTellsNothing(String said) {
        assertEquals(OptionalLong.empty(), NvLinkBytes.sent(said));
    }

    @Test
    void aProcessorHasNoLinks() {
        assertEquals(OptionalLong.empty(), NvLinkBytes.sent(Device.cpu()));
    }
}

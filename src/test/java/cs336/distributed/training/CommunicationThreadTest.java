package cs336.distributed.training;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.torch.Device;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class CommunicationThreadTest {
    @Test
    void messagesGoInTheirOrderOnAnotherThread() {
        List<Integer> sent = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        try (var sending = new CommunicationThread(Device.cpu())) {
            sending.drain(); // of nothing
            sending.follow();
            for (int i = 0; i < 100; i++) {
                int message = i;
                sending.send(() -> {
                    sent.add(message);
                    threads.add(Thread.currentThread());
                });
            }
            sending.drain();
            assertEquals(IntStream.range(0, 100).boxed().toList(), sent);
            assertEquals(1, threads.stream().distinct().count());
            assertNotEquals(Thread.currentThread(), threads.get(0));
        }
    }

    @Test
    void whoHandsOverCanWaitUntilFewAreLeft() throws InterruptedException {
        var mayGo = new CountDownLatch(1);
        List<Integer> sent = Collections.synchronizedList(new ArrayList<>());
        try (var sending = new CommunicationThread(Device.cpu())) {
            sending.send(() -> {
                try {
                    mayGo.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                sent.add(0);
            });
            sending.awaitAllBut(1); // returns at once
            sending.send(() -> sent.add(1));
            var waiting = new Thread(() -> sending.awaitAllBut(1));
            waiting.start();
            waiting.join(50);
            assertTrue(waiting.isAlive());
            mayGo.countDown();
            waiting.join();
            assertEquals(0, sent.get(0));
            sending.drain();
            assertEquals(List.of(0, 1), sent);
        }
    }

    @Test
    void theFirstFailureIsThrownWhereTheEndIsAwaitedAndNothingIsSentAfterIt() {
        List<Integer> sent = new ArrayList<>();
        var failure = new IllegalStateException("the first");
        try (var sending = new CommunicationThread(Device.cpu())) {
            sending.send(() -> sent.add(0));
            sending.send(() -> {
                throw failure;
            });
            sending.send(() -> sent.add(1));
            assertSame(failure, assertThrows(IllegalStateException.class, sending::drain));
            assertEquals(List.of(0), sent);
        }
    }

    @Test
    void anErrorIsNotLostBehindTheMessagesAfterIt() {
        List<Integer> sent = new ArrayList<>();
        var error = new StackOverflowError();
        try (var sending = new CommunicationThread(Device.cpu())) {
            sending.send(() -> {
                throw error;
            });
            sending.send(() -> sent.add(1));
            assertSame(error, assertThrows(StackOverflowError.class, sending::drain));
            assertEquals(List.of(), sent);
        }
    }
}

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
    void actionsRunInOrderOnAnotherThread() {
        List<Integer> ran = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        try (var thread = new CommunicationThread(Device.cpu())) {
            thread.drain(); // without actions
            thread.useCurrentStream();
            for (int i = 0; i < 100; i++) {
                int action = i;
                thread.submit(() -> {
                    ran.add(action);
                    threads.add(Thread.currentThread());
                });
            }
            thread.drain();
            assertEquals(IntStream.range(0, 100).boxed().toList(), ran);
            assertEquals(1, threads.stream().distinct().count());
            assertNotEquals(Thread.currentThread(), threads.get(0));
        }
    }

    @Test
    void theCallerCanWaitUntilFewActionsAreLeft() throws InterruptedException {
        var mayGo = new CountDownLatch(1);
        List<Integer> ran = Collections.synchronizedList(new ArrayList<>());
        try (var thread = new CommunicationThread(Device.cpu())) {
            thread.submit(() -> {
                try {
                    mayGo.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                ran.add(0);
            });
            thread.awaitAllBut(1); // returns at once
            thread.submit(() -> ran.add(1));
            var waiting = new Thread(() -> thread.awaitAllBut(1));
            waiting.start();
            waiting.join(50);
            assertTrue(waiting.isAlive());
            mayGo.countDown();
            waiting.join();
            assertEquals(0, ran.get(0));
            thread.drain();
            assertEquals(List.of(0, 1), ran);
        }
    }

    @Test
    void theFirstFailureIsThrownByDrainAndLaterActionsDoNotRun() {
        List<Integer> ran = new ArrayList<>();
        var failure = new IllegalStateException("the first");
        try (var thread = new CommunicationThread(Device.cpu())) {
            thread.submit(() -> ran.add(0));
            thread.submit(() -> {
                throw failure;
            });
            thread.submit(() -> ran.add(1));
            assertSame(failure, assertThrows(IllegalStateException.class, thread::drain));
            assertEquals(List.of(0), ran);
        }
    }

    @Test
    void anErrorIsThrownAndLaterActionsDoNotRun() {
        List<Integer> ran = new ArrayList<>();
        var error = new StackOverflowError();
        try (var thread = new CommunicationThread(Device.cpu())) {
            thread.submit(() -> {
                throw error;
            });
            thread.submit(() -> ran.add(1));
            assertSame(error, assertThrows(StackOverflowError.class, thread::drain));
            assertEquals(List.of(), ran);
        }
    }
}

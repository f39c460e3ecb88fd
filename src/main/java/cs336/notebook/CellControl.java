package cs336.notebook;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import jdk.jshell.execution.DirectExecutionControl;

/**
 * Runs compiled snippets on the calling thread, hands out their values as objects, forgets what the notebook can no
 * longer reach, and can be interrupted.
 *
 * <p>JShell keeps every variable in a static field of a class of its own. Such a class lives as long as the shell, so
 * that a result ({@code $3}) or the old value of a variable declared again would stay in memory for ever: here those
 * fields are cleared.
 */
final class CellControl extends DirectExecutionControl {
    /** A snippet's own class, as opposed to one nested in it, which the user has written. */
    private static final Pattern SNIPPET_CLASS = Pattern.compile("REPL\\.\\$JShell\\$\\w+");

    private static final Pattern RESULT = Pattern.compile("\\$\\d+");

    /** Time for a cell to end by itself after {@link Thread#interrupt()}, as sleeping and waiting code does. */
    private static final long GRACE_MS = 250;

    private static final long LATE_STOP_MS = 1000;

    private final Map<String, Field> fieldOfVariable = new HashMap<>();
    private final Object lock = new Object();
    private Object value;
    private Thread running;
    private long invocation;
    private boolean stopSent;
    private boolean stopBeforeNext;

    /** The value of the last snippet, given out once and then forgotten. */
    Object takeValue() {
        Object taken = value;
        value = null;
        return taken;
    }

    @Override
    public void load(ClassBytecodes[] classes)
            throws ClassInstallException, NotImplementedException, EngineTerminationException {
        super.load(classes);
        for (ClassBytecodes loaded : classes) {
            if (SNIPPET_CLASS.matcher(loaded.name()).matches()) {
                forgetOldValues(loaded.name());
            }
        }
    }

    private void forgetOldValues(String className) throws ClassInstallException {
        try {
            for (Field field : findClass(className).getDeclaredFields()) {
                Field old = isVariable(field) ? fieldOfVariable.put(field.getName(), field) : null;
                if (old != null) {
                    old.set(null, null);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new ClassInstallException(e.toString(), new boolean[0]);
        }
    }

    private static boolean isVariable(Field field) {
        return Modifier.isStatic(field.getModifiers())
                && !Modifier.isFinal(field.getModifiers())
                && !field.getType().isPrimitive()
                && !field.isSynthetic()
                && field.trySetAccessible();
    }

    @Override
    protected String invoke(Method snippet) throws Exception {
        value = null;
        begin();
        boolean stopped = false;
        try {
            value = snippet.invoke(null);
            return "";
        } catch (InvocationTargetException e) {
            stopped = e.getCause() instanceof StopRequest;
            throw e;
        } finally {
            end(stopped);
            for (Field field : snippet.getDeclaringClass().getDeclaredFields()) {
                if (RESULT.matcher(field.getName()).matches() && isVariable(field)) {
                    fieldOfVariable.remove(field.getName());
                    field.set(null, null);
                }
            }
        }
    }

    /** Forgets interrupts that came before this cell. */
    void cellBegins() {
        synchronized (lock) {
            stopBeforeNext = false;
        }
    }

    private void begin() throws InvocationTargetException {
        synchronized (lock) {
            if (stopBeforeNext) {
                throw new InvocationTargetException(new StopRequest(new StackTraceElement[0]));
            }
            running = Thread.currentThread();
            invocation++;
            stopSent = false;
        }
    }

    /** A stop that was sent but has not struck yet must strike here, not in the compiler or the kernel later on. */
    private void end(boolean stopped) {
        boolean outstanding = false;
        for (boolean ended = false; !ended; ) {
            try {
                synchronized (lock) {
                    running = null;
                    outstanding |= stopSent && !stopped;
                    stopSent = false;
                    lock.notifyAll();
                    ended = true;
                }
            } catch (StopRequest late) {
                stopped = true;
            }
        }
        if (outstanding && !stopped) {
            try {
                long limit = System.nanoTime() + LATE_STOP_MS * 1_000_000;
                while (System.nanoTime() < limit) {
                    Thread.onSpinWait();
                }
            } catch (StopRequest late) {
                // It has struck where it does no harm.
            }
        }
        Thread.interrupted();
    }

    /**
     * Ends the snippet that is running: first politely, then, if it does not listen, by force. Where none is running,
     * the next one of this cell, which is being compiled, does not start.
     *
     * @throws IllegalStateException if the virtual machine cannot stop a thread
     */
    void interrupt() {
        synchronized (lock) {
            Thread target = running;
            long interrupted = invocation;
            if (target == null) {
                stopBeforeNext = true;
                return;
            }
            target.interrupt();
            long limit = System.nanoTime() + GRACE_MS * 1_000_000;
            while (isRunning(interrupted) && System.nanoTime() < limit) {
                try {
                    lock.wait(Math.max(1, (limit - System.nanoTime()) / 1_000_000));
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
            if (isRunning(interrupted)) {
                stopSent = true;
                ThreadStop.raise(target, new StopRequest(target.getStackTrace()));
            }
        }
    }

    private boolean isRunning(long number) {
        return running != null && invocation == number;
    }
}

package cs336.profile;

/**
 * A thread of the program.
 *
 * @param process as the trace names it, a number as a rule
 * @param thread as the trace names it, a number as a rule
 */
public record HostThread(String process, String thread) implements Comparable<HostThread> {
    @Override
    public int compareTo(HostThread other) {
        int order = compareNames(process, other.process);
        return order != 0 ? order : compareNames(thread, other.thread);
    }

    /** Numbers by value: 9 before 10. */
    private static int compareNames(String a, String b) {
        int order = Integer.compare(a.length(), b.length());
        return order != 0 ? order : a.compareTo(b);
    }

    @Override
    public String toString() {
        return process + "/" + thread;
    }
}

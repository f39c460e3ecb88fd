/** The stopwatch: timing, sweeps of cases that run each in a process of its own, and measurements that are stored. */
package cs336.bench;

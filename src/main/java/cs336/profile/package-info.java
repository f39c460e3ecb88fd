/**
 * Profiles of CPU and GPU time: operators, kernels, ranges, flame graphs, timelines, and the overlap of communication
 * and computation.
 *
 * <p>Read {@link cs336.profile.Profiler} (the recorder), then {@link cs336.profile.Trace} (its events),
 * {@link cs336.profile.KernelTable} (GPU time by kernel) and {@link cs336.profile.Overlap} (hidden communication). May
 * use {@code numbers}, and the packages that it uses.
 */
package cs336.profile;

/**
 * Predictions of the memory and the time of one training step or forward pass, for a model and a way to train it, next
 * to stored measurements.
 *
 * <p>Read {@link cs336.planner.StepPlan} first, then {@link cs336.planner.PlanMemory} and
 * {@link cs336.planner.PlanTime}.
 *
 * <p>May use {@code distributed.bench}, and the packages that it may use.
 */
package cs336.planner;

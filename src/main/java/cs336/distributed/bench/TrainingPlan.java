package cs336.distributed.bench;

import cs336.bench.Case;
import java.io.Serializable;
import java.util.ArrayList;

/**
 * The training runs that every rank measures. In each round all cases are measured one after the other, so that drift
 * of the machine affects all of them equally.
 *
 * @param cases cases of one model and batch size, see {@link DdpBenchmark#caseOf}, {@link ShardBenchmark#caseOf} and
 *     {@link FsdpBenchmark#caseOf}
 * @param warmup untimed steps of each case in each round
 * @param steps timed steps of each case in each round
 * @param rounds number of rounds
 * @param storage the file to which rank 0 writes the measurements
 */
public record TrainingPlan(ArrayList<Case> cases, int warmup, int steps, int rounds, MeasurementFile storage)
        implements Serializable {}

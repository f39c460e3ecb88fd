package cs336.distributed.training;

import cs336.basics.Optimizer;
import cs336.distributed.collectives.ProcessGroup;
import cs336.distributed.collectives.Reduction;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * An optimizer of shards that agrees on gradient overflow with the other ranks: an overflow is visible only on the rank
 * that owns the gradient.
 */
record AgreeingOptimizer(Optimizer shards, ProcessGroup group) implements Optimizer {
    @Override
    public void agreeOnOverflow(Tensor foundInf) {
        group.allReduce(foundInf, Reduction.MAX);
    }

    @Override
    public Map<String, Tensor> parameters() {
        return shards.parameters();
    }

    @Override
    public void step() {
        shards.step();
    }

    @Override
    public void zeroGrad() {
        shards.zeroGrad();
    }

    @Override
    public double learningRate() {
        return shards.learningRate();
    }

    @Override
    public void setLearningRate(double learningRate) {
        shards.setLearningRate(learningRate);
    }

    @Override
    public Map<String, Tensor> state() {
        return shards.state();
    }

    @Override
    public String kind() {
        return shards.kind();
    }

    @Override
    public void requireLoadable(Map<String, Tensor> state) {
        shards.requireLoadable(state);
    }

    @Override
    public void loadState(Map<String, Tensor> state) {
        shards.loadState(state);
    }

    @Override
    public void close() {
        shards.close();
    }
}

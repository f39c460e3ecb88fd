/** Scaling laws fitted to training runs of several compute budgets. */
package cs336.scaling.laws;

/**
 * The recorder of functions of tensors.
 *
 * <p>Read {@link cs336.compile.trace.Recorder}; the hook that it uses is {@link cs336.torch.OperatorInterceptor}.
 *
 * <p>May use {@code compile.program}, and the packages that it may use.
 */
package cs336.compile.trace;

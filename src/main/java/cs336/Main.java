package cs336;

public final class Main {
    public static void main(String[] args) {
        long t = System.nanoTime();
        var x = org.bytedeco.pytorch.global.torch.randn(2, 3);
        System.out.println(x.dim() + " " + (System.nanoTime() - t) / 1e9);
    }
}
